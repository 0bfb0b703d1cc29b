//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package privatefile

// LockDirectory locks nothing: the standard library has no lock for this system.
func LockDirectory(string) (unlock func(), err error) { return func() {}, nil }
