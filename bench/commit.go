package bench

import "runtime/debug"

// revision is the commit of this module that the program was built from, with
// "+dirty" if the tree was changed, or "" if nobody knows. Commit is what the linker
// was told, which goes before what the go command recorded.
func revision(commit string) string {
	if commit != "" {
		return commit
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	var rev, dirty string
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			rev = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = "+dirty"
		}
	}
	if rev == "" {
		return ""
	}
	return rev + dirty
}
