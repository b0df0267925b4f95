package server

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/lockbench/lockbench/impls/lock"
)

// mysqlKind is the kind of server that MariaDB and MySQL are.
func mysqlKind() Kind {
	return family{
		kind: "mysql", address: map[lock.Topology]string{lock.Single: "mysql://USER:PASSWORD@HOST:3306/DATABASE"},
		locate: func(ctx context.Context, o Options) (installed, error) {
			path, err := o.locate("mysql", []string{"mariadbd", "/usr/sbin/mariadbd"}, "scripts/servers mysql")
			if err != nil {
				return installed{}, err
			}
			if _, err := exec.LookPath("mariadb-install-db"); err != nil {
				return installed{}, missing("mariadb-install-db is not on PATH, which makes the directory of a server; get it with: scripts/servers mysql")
			}
			version := versionIn(ctx, path)
			return installed{path: path, product: "mariadb", version: version, conns: o.Conns}, nil
		},
		launch: func(ctx context.Context, i installed, d *tempDir, _ lock.Topology, g *group) (e lock.Endpoint, err error) {
			r, err := launch(ctx, d, program{
				path: i.path, unprivileged: true,
				args: func(ctx context.Context, ports []int, dir string) ([]string, error) {
					args, err := mysqlArgs(ctx, ports, dir, i.conns)
					return append(args, i.settings...), err
				},
				ready: mysqlReady,
				clock: func(ctx context.Context, addr string) (time.Time, error) {
					return sqlClock(ctx, lock.Endpoint("mysql://root@"+addr+"/mysql"), "SELECT UNIX_TIMESTAMP(SYSDATE(6))")
				},
				join: func(ctx context.Context, addr string, _ int) error {
					e = lock.Endpoint("mysql://root@" + addr + "/lockbench")
					db, err := openSQL(lock.Endpoint("mysql://root@" + addr + "/mysql"))
					if err != nil {
						return err
					}
					defer func() { _ = db.Close() }()
					_, err = db.ExecContext(ctx, "CREATE DATABASE IF NOT EXISTS lockbench")
					return err
				},
			})
			if err == nil {
				*g = append(*g, r)
			}
			return e, err
		},
		set: func(settings []string) (args []string) {
			for _, one := range settings {
				args = append(args, "--"+one)
			}
			return args
		},
		usual: "mariadb:11", contain: containMySQL,
		hosts: mysqlHosts,
		connect: func(ctx context.Context, e lock.Endpoint) (node, error) {
			db, err := openSQL(e)
			if err != nil {
				return nil, err
			}
			db.SetMaxOpenConns(3) // see removeRow
			n := &mysqlNode{sqlNode: sqlNode{db: db}}
			if err := n.look(ctx); err != nil {
				_ = db.Close() // the first error is the one that helps
				return nil, fmt.Errorf("%s: %w", e, err)
			}
			return n, nil
		},
	}.as([]string{"mysql://USER:PASSWORD@HOST[:PORT]/DATABASE"})
}

// mysqlArgs makes the directory of a server, and returns the arguments to run it.
// Its log of changes is written to the file system at each commit, as its default
// is, and the temporary directory decides what that costs.
func mysqlArgs(ctx context.Context, ports []int, dir string, conns int) ([]string, error) {
	data := filepath.Join(dir, "data")
	// A server that starts removes the temporary tables that it finds where it keeps
	// its own, be they of one that runs: so none of ours keeps them in /tmp.
	tmp := "--tmpdir=" + dir
	make := exec.CommandContext(ctx, "mariadb-install-db", append(mysqlInstall(), "--datadir="+data, tmp)...)
	make.Dir, make.SysProcAttr = dir, childAttr(true)
	if out, err := make.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("mariadb-install-db: %w: %s", err, installError(out))
	}
	return append(mysqlFlags(conns), "--datadir="+data, tmp, "--socket="+filepath.Join(dir, "sock"), "--pid-file="+filepath.Join(dir, "pid"),
		"--port="+strconv.Itoa(ports[0]), "--bind-address=127.0.0.1"), nil
}

// installError is what mariadb-install-db says of its failure, the first line that
// tells of an error, which warnings do too in small letters. The last line is where
// to post bugs.
func installError(out []byte) string {
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, "ERROR") || strings.Contains(line, "Fatal error") {
			return strings.TrimSpace(line)
		}
	}
	return lastLine(out)
}

// mysqlInstall are the arguments of mariadb-install-db beside the directory.
func mysqlInstall() []string {
	return []string{"--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve", "--innodb-log-file-size=4M"}
}

// mysqlFlags are the arguments of a server beside its address and its paths.
func mysqlFlags(conns int) []string {
	return []string{
		"--no-defaults", "--skip-name-resolve",
		"--innodb-buffer-pool-size=64M", "--performance-schema=OFF", "--max-connections=" + strconv.Itoa(max(2000, conns)), "--innodb-log-file-size=4M",
	}
}

// mysqlReady asks once whether a server of ours at addr lets its user in.
func mysqlReady(ctx context.Context, addr string) error {
	return pingSQL(ctx, lock.Endpoint("mysql://root@"+addr+"/mysql"))
}

// mysqlNode is the administrator's view of a MariaDB or MySQL.
type mysqlNode struct {
	sqlNode
	turn sync.Mutex // one remove at a time: it takes a connection to look while another waits
}

func (n *mysqlNode) look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var version, flush, id string
	if err := n.db.QueryRowContext(ctx, "SELECT VERSION(), @@innodb_flush_log_at_trx_commit, CONCAT(@@hostname, @@port, @@pid_file)").Scan(&version, &flush, &id); err != nil {
		return err
	}
	n.is.product = "mysql"
	if strings.Contains(version, "MariaDB") {
		n.is.product = "mariadb"
	}
	n.is.version, _, _ = strings.Cut(version, "-")
	n.is.id = id
	n.is.options = "innodb_flush_log_at_trx_commit " + flush
	n.is.durable = map[string]string{
		"0": "writes, on disk within a second", "1": "each write, on disk", "2": "each write, in the file system's memory",
	}[flush]
	return nil
}

func (n *mysqlNode) usage(ctx context.Context) (Usage, error) {
	u := untold()
	rows, err := n.db.QueryContext(ctx, "SHOW GLOBAL STATUS WHERE Variable_name IN ('Questions', 'Bytes_received', 'Bytes_sent', 'Memory_used')")
	if err != nil {
		return u, err
	}
	defer func() { _ = rows.Close() }()
	u.NetBytes = 0
	for rows.Next() {
		var name string
		var value float64
		if err := rows.Scan(&name, &value); err != nil {
			return u, err
		}
		switch name {
		case "Questions":
			u.Cmds = value
		case "Memory_used": // of MariaDB alone
			u.Kept = value
		default:
			u.NetBytes += value
		}
	}
	return u, rows.Err()
}

// remove deletes the rows of these names, and ends the sessions that hold a row of
// them or a lock of that name.
func (n *mysqlNode) remove(ctx context.Context, names []string) (int, error) {
	n.turn.Lock()
	defer n.turn.Unlock()
	tables, err := n.strings(ctx, `SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME LIKE 'lockbench\_%'`)
	if err != nil {
		return 0, err
	}
	sum := 0
	for _, name := range names {
		if len(name) <= 64 { // GET_LOCK takes no longer ones
			var id sql.NullInt64
			if err := n.db.QueryRowContext(ctx, "SELECT IS_USED_LOCK(?)", name).Scan(&id); err != nil {
				return sum, err
			}
			if id.Valid {
				killed, err := n.kill(ctx, id.Int64)
				sum += killed
				if err != nil {
					return sum, err
				}
			}
		}
		for _, table := range tables {
			gone, err := n.removeRow(ctx, table, name)
			sum += gone
			if err != nil {
				return sum, err
			}
		}
	}
	return sum, nil
}

// kill ends a session, and returns 1 if it was there.
func (n *mysqlNode) kill(ctx context.Context, id int64) (int, error) {
	_, err := n.db.ExecContext(ctx, "KILL CONNECTION ?", id)
	var refused *mysql.MySQLError
	if errors.As(err, &refused) && refused.Number == 1094 { // it has ended by itself
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return 1, nil
}

// removeRow deletes one row. Where a session holds it, the wait for that tells which
// one it is, and it is ended.
func (n *mysqlNode) removeRow(ctx context.Context, table, name string) (int, error) {
	conn, err := n.db.Conn(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { _ = conn.Close() }()
	var own int64
	if err := conn.QueryRowContext(ctx, "SELECT CONNECTION_ID()").Scan(&own); err != nil {
		return 0, err
	}
	type outcome struct {
		rows int64
		err  error
	}
	done := make(chan outcome, 1)
	go func() {
		r, err := conn.ExecContext(ctx, "DELETE FROM "+table+" WHERE resource = ?", []byte(name))
		if err != nil {
			done <- outcome{0, err}
			return
		}
		rows, err := r.RowsAffected()
		done <- outcome{rows, err}
	}()
	killed := 0
	// The server makes the tables that blockers reads anew only for who has not read
	// them for 100 ms.
	look := time.NewTicker(150 * time.Millisecond)
	defer look.Stop()
	for {
		select {
		case o := <-done:
			return killed + int(o.rows), o.err
		case <-look.C:
			ids, err := n.strings(ctx, n.blockers(), own)
			for _, id := range ids {
				number, e := strconv.ParseInt(id, 10, 64)
				if e == nil {
					var k int
					k, e = n.kill(ctx, number)
					killed += k
				}
				err = errors.Join(err, e)
			}
			if err != nil {
				o := <-done // ctx, or the server's own time-out, ends it
				return killed + int(o.rows), errors.Join(err, o.err)
			}
		}
	}
}

// blockers asks which sessions hold what the session ? waits for.
func (n *mysqlNode) blockers() string {
	if n.is.product == "mariadb" {
		return `SELECT b.trx_mysql_thread_id FROM information_schema.INNODB_LOCK_WAITS w
			JOIN information_schema.INNODB_TRX b ON b.trx_id = w.blocking_trx_id
			JOIN information_schema.INNODB_TRX r ON r.trx_id = w.requesting_trx_id WHERE r.trx_mysql_thread_id = ?`
	}
	return `SELECT b.trx_mysql_thread_id FROM performance_schema.data_lock_waits w
		JOIN information_schema.INNODB_TRX b ON b.trx_id = w.BLOCKING_ENGINE_TRANSACTION_ID
		JOIN information_schema.INNODB_TRX r ON r.trx_id = w.REQUESTING_ENGINE_TRANSACTION_ID WHERE r.trx_mysql_thread_id = ?`
}
