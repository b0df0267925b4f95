package locktest

// violation begins what is reported of two owners inside at once.
const violation = "violation: "

// A Failer is the part of *testing.T that Violation needs.
type Failer interface {
	Helper()
	Errorf(format string, args ...any)
}

// Violation fails t, because two owners were inside at once; format and args say
// which and how. Every test says so through it, and no other message has the word
// with its colon. So whoever runs the tests can tell such a failure from all others:
// it is never a matter of luck, and nothing runs it again.
func Violation(t Failer, format string, args ...any) {
	t.Helper()
	t.Errorf(violation+format, args...)
}

// Violation ends the case as Broken does: the variant let two owners in at once.
func (e *env) Violation(format string, args ...any) {
	e.Helper()
	if e.declared { // which is what the case has to show
		e.Broken(format, args...)
	}
	e.Broken(violation+format, args...)
}
