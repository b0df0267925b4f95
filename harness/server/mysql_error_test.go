package server

import "testing"

// Why no database could be made is said, and not where to post bugs.
func TestInstallError(t *testing.T) {
	const end = "\n\nThe latest information about mariadb-install-db is available at\nsome page.\nPlease post bugs at\nsome other page\n"
	for out, want := range map[string]string{
		"Installing MariaDB/MySQL system tables in 'd' ...\n2026-11-23 9:02:22 0 [ERROR] InnoDB: Cannot open 'd/ibdata1'\n2026-11-23 9:02:22 0 [ERROR] Aborting" + end: "2026-11-23 9:02:22 0 [ERROR] InnoDB: Cannot open 'd/ibdata1'",
		"mkdir: cannot create directory 'd'\nFatal error Can't create database directory 'd'" + end:                                                                 "Fatal error Can't create database directory 'd'",
		"gone\n": "gone",
		"":       "it said nothing",
	} {
		if got := installError([]byte(out)); got != want {
			t.Errorf("of %q it says %q, want %q", out, got, want)
		}
	}
}
