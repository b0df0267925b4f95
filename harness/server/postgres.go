package server

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
)

// postgresKind is the kind of server that PostgreSQL is.
func postgresKind() Kind {
	return family{
		kind: "postgresql", address: map[lock.Topology]string{lock.Single: "postgres://USER:PASSWORD@HOST:5432/DATABASE"},
		locate: func(ctx context.Context, o Options) (installed, error) {
			names := []string{"postgres"}
			// Debian keeps the programs of each version in a directory of their own.
			found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
			slices.SortFunc(found, func(a, b string) int { return len(b) - len(a) })
			path, err := o.locate("postgresql", append(names, found...), "scripts/servers postgresql")
			if err != nil {
				return installed{}, err
			}
			if real, err := filepath.EvalSymlinks(path); err == nil {
				path = real // initdb lies beside the program, not beside a link to it
			}
			if _, err := exec.LookPath(filepath.Join(filepath.Dir(path), "initdb")); err != nil {
				return installed{}, missing("there is no initdb beside " + path + ", which makes the directory of a server; get it with: scripts/servers postgresql")
			}
			return installed{path: path, product: "postgresql", version: versionIn(ctx, path), conns: o.Conns}, nil
		},
		launch: func(ctx context.Context, i installed, d *tempDir, _ lock.Topology, g *group) (e lock.Endpoint, err error) {
			r, err := launch(ctx, d, program{
				path: i.path, unprivileged: true, tree: true, env: []string{"LC_ALL=C"},
				args: func(ctx context.Context, ports []int, dir string) ([]string, error) {
					args, err := postgresArgs(ctx, i.path, ports[0], dir, i.conns)
					return append(args, i.settings...), err
				},
				ready: postgresReady,
				clock: func(ctx context.Context, addr string) (time.Time, error) {
					return sqlClock(ctx, postgresAt(addr), "SELECT EXTRACT(EPOCH FROM clock_timestamp())")
				},
				join: func(_ context.Context, addr string, _ int) error {
					e = postgresAt(addr)
					return nil
				},
			})
			if err == nil {
				*g = append(*g, r)
			}
			return e, err
		},
		set: func(settings []string) (args []string) {
			for _, one := range settings {
				args = append(args, "-c", one)
			}
			return args
		},
		usual: "postgres:17", contain: containPostgres,
		hosts: postgresHosts,
		connect: func(ctx context.Context, e lock.Endpoint) (node, error) {
			db, err := openSQL(e)
			if err != nil {
				return nil, err
			}
			n := &postgresNode{sqlNode{db: db}}
			if err := n.look(ctx); err != nil {
				_ = db.Close() // the first error is the one that helps
				return nil, fmt.Errorf("%s: %w", e, singleLine{err})
			}
			return n, nil
		},
	}.as([]string{"postgres://USER:PASSWORD@HOST[:PORT]/DATABASE"})
}

// postgresArgs makes the directory of a server, and returns the arguments to run
// it. Its log is written to the disk at each commit, as its default is.
func postgresArgs(ctx context.Context, path string, port int, dir string, conns int) ([]string, error) {
	data := filepath.Join(dir, "data")
	make := exec.CommandContext(ctx, filepath.Join(filepath.Dir(path), "initdb"), append(postgresInit(), "-D", data)...)
	make.Dir, make.SysProcAttr = dir, childAttr(true)
	if out, err := make.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb: %w: %s", err, lastLine(out))
	}
	return append(postgresFlags(conns), "-D", data, "-k", dir, "-p", strconv.Itoa(port), "-c", "listen_addresses=127.0.0.1"), nil
}

// postgresInit are the arguments of initdb beside the directory.
func postgresInit() []string {
	return []string{"-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync"}
}

// postgresFlags are the arguments of a server beside its address and its paths.
func postgresFlags(conns int) []string {
	return []string{
		"-c", "max_connections=" + strconv.Itoa(max(1000, conns)), "-c", "shared_buffers=64MB", "-c", "shared_memory_type=mmap", "-c", "dynamic_shared_memory_type=mmap",
	}
}

// postgresAt is how the user of a server of ours at addr gets in.
func postgresAt(addr string) lock.Endpoint {
	return lock.Endpoint("postgres://postgres@" + addr + "/postgres?sslmode=disable")
}

// postgresReady asks once whether a server of ours at addr lets its user in.
func postgresReady(ctx context.Context, addr string) error { return pingSQL(ctx, postgresAt(addr)) }

// postgresNode is the administrator's view of a PostgreSQL.
type postgresNode struct{ sqlNode }

func (n *postgresNode) look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var version, fsync, commit, id string
	var started time.Time
	if err := n.db.QueryRowContext(ctx, `SELECT current_setting('server_version'), current_setting('fsync'), current_setting('synchronous_commit'),
		(SELECT oid::text FROM pg_database WHERE datname = current_database()), pg_postmaster_start_time()`).Scan(&version, &fsync, &commit, &id, &started); err != nil {
		return err
	}
	n.is = about{
		product: "postgresql", version: leadingVersion(version), id: id + " " + started.String(),
		options: "fsync " + fsync + " synchronous_commit " + commit, durable: "each write, on disk",
	}
	switch {
	case fsync == "off":
		n.is.durable = "each write, in the file system's memory"
	case commit == "off":
		n.is.durable = "writes, on disk within a second"
	}
	return nil
}

// usage counts transactions for commands: the server does not count statements.
func (n *postgresNode) usage(ctx context.Context) (Usage, error) {
	u := untold()
	err := n.db.QueryRowContext(ctx, "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()").Scan(&u.Cmds)
	return u, err
}

// remove deletes the rows of these names, and ends the sessions that hold a row of
// them or the advisory lock of that number.
func (n *postgresNode) remove(ctx context.Context, names []string) (int, error) {
	tables, err := n.strings(ctx, "SELECT tablename FROM pg_tables WHERE schemaname = 'lockbench'")
	if err != nil {
		return 0, err
	}
	sum := 0
	for _, name := range names {
		if number, err := strconv.ParseInt(name, 10, 64); err == nil {
			// A number of 64 bits stands in two columns, and objsubid tells that it does.
			gone, err := n.end(ctx, `SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 1
				AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
				AND classid = (($1::bigint >> 32) & 4294967295)::oid AND objid = ($1::bigint & 4294967295)::oid`, number)
			sum += gone
			if err != nil {
				return sum, err
			}
		}
		for _, table := range tables {
			// The row's xmax is the transaction that has it locked, if any.
			gone, err := n.end(ctx, `SELECT l.pid FROM lockbench.`+table+` t JOIN pg_locks l ON l.locktype = 'transactionid' AND l.granted
				AND l.transactionid = t.xmax WHERE t.resource = $1 AND l.pid <> pg_backend_pid()`, []byte(name))
			sum += gone
			if err != nil {
				return sum, err
			}
			r, err := n.db.ExecContext(ctx, "DELETE FROM lockbench."+table+" WHERE resource = $1", []byte(name))
			if err != nil {
				return sum, err
			}
			rows, err := r.RowsAffected()
			sum += int(rows)
			if err != nil {
				return sum, err
			}
		}
	}
	return sum, nil
}

// end ends the sessions that query lists, waits until they are gone, and returns how
// many there were.
func (n *postgresNode) end(ctx context.Context, query string, args ...any) (int, error) {
	pids, err := n.strings(ctx, query, args...)
	if err != nil {
		return 0, err
	}
	for _, pid := range pids {
		number, err := strconv.Atoi(pid)
		if err != nil {
			return 0, err
		}
		if _, err := n.db.ExecContext(ctx, "SELECT pg_terminate_backend($1, 10000)", number); err != nil {
			return 0, err
		}
	}
	return len(pids), nil
}
