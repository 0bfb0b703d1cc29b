package load

import (
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// farAway is a connection 100 ms long, in a bubble, and the other end of it.
func farAway(t *testing.T, d *distance) (here *distantConn, there net.Conn) {
	t.Helper()
	near, there := net.Pipe()
	return d.stretch(near), there
}

func readWhole(t *testing.T, from io.Reader, n int) string {
	t.Helper()
	data := make([]byte, n)
	if _, err := io.ReadFull(from, data); err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestDistance(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &distance{rtt: 100 * time.Millisecond}
		here, there := farAway(t, d)
		began := time.Now()
		passed := func(want time.Duration) {
			t.Helper()
			if got := time.Since(began); got != want {
				t.Errorf("%s have passed, want %s", got, want)
			}
		}
		// Much at once is not later than little, and in order.
		for _, part := range []string{"one ", "two ", "three"} {
			if _, err := here.Write([]byte(part)); err != nil {
				t.Fatal(err)
			}
		}
		passed(0)
		if got := readWhole(t, there, 13); got != "one two three" {
			t.Errorf("there arrived %q", got)
		}
		passed(50 * time.Millisecond)
		there.Write([]byte("answer"))
		if got := readWhole(t, here, 6); got != "answer" {
			t.Errorf("here arrived %q", got)
		}
		passed(100 * time.Millisecond)

		// What was written before the end arrives before it.
		here.Write([]byte("last"))
		here.Close()
		if _, err := here.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
			t.Errorf("reading what is closed: %v", err)
		}
		if _, err := here.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
			t.Errorf("writing to what is closed: %v", err)
		}
		passed(100 * time.Millisecond)
		if got := readWhole(t, there, 4); got != "last" {
			t.Errorf("there arrived %q", got)
		}
		if _, err := there.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("the end is %v", err)
		}
		passed(150 * time.Millisecond)
		d.closing.Wait()
	})
}

// TestDistanceOfTheEnd: the other side's end takes its time too, behind its
// last bytes.
func TestDistanceOfTheEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &distance{rtt: 100 * time.Millisecond}
		here, there := farAway(t, d)
		began := time.Now()
		go func() {
			there.Write([]byte("bye"))
			there.Close()
		}()
		data, err := io.ReadAll(here)
		if string(data) != "bye" || err != nil || time.Since(began) != 50*time.Millisecond {
			t.Errorf("%q, %v after %s", data, err, time.Since(began))
		}
		if here.Close() != nil || here.Close() == nil {
			t.Error("only the second Close is an error")
		}
		d.closing.Wait()
	})
}
