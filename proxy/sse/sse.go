// Package sse frames server-sent events (WHATWG HTML, section 9.2), and the lines of
// JSON that some providers stream in their place. Reading is lenient, because
// providers differ; writing is one form only.
package sse

import (
	"bytes"
	"errors"
	"io"
)

// DefaultMaxEvent bounds one event's data, in bytes.
const DefaultMaxEvent = 4 << 20

// ErrTooLong is returned by [Reader.Next] for an event over the bound.
var ErrTooLong = errors.New("server-sent event longer than the limit")

const readSize = 8 << 10

// Framing is how a stream is cut into events.
type Framing int

const (
	Events Framing = iota // server-sent events
	Lines                 // each line that is not empty is the data of an event
)

var byteOrderMark = []byte("\xef\xbb\xbf")

// A Reader reads the data of one event after another. It accepts lines that end
// in LF, CR or CRLF wherever reads are split, one byte order mark, `data:` with
// or without the space, and several data lines (joined by LF). Comments, events
// without data, and the fields event, id and retry are dropped.
//
// An event whose data is one line, as all providers send it, is returned
// without a copy and without an allocation.
type Reader struct {
	src     io.Reader
	framing Framing
	err     error // what src ended with
	max     int

	buf     []byte // buf[line:] is not parsed yet
	line    int    // where the current line starts
	scanned int    // no line end in buf[line:scanned]
	skipLF  bool   // the last line ended in CR: an LF is part of its end
	begun   bool   // the first line was seen, so a byte order mark is none

	// The event so far: buf[dataStart:dataEnd], or joined if it has several lines.
	hasData            bool
	dataStart, dataEnd int
	joined             []byte
}

// NewReader returns a Reader of server-sent events on src with [DefaultMaxEvent].
func NewReader(src io.Reader) *Reader {
	return &Reader{src: src, max: DefaultMaxEvent}
}

// Reset makes r read from src as if it were new, keeping its buffer.
func (r *Reader) Reset(src io.Reader, framing Framing) {
	*r = Reader{src: src, framing: framing, max: r.max, buf: r.buf[:0], joined: r.joined[:0]}
}

// Cap is how many bytes r has room for, of which it keeps all when it is reset.
func (r *Reader) Cap() int { return cap(r.buf) + cap(r.joined) }

// Next returns the data of the next event, valid until the next call.
//
// At the end of input it returns io.EOF. An event that the end of input cuts
// off before its blank line is still returned first: providers forget that
// line, and a consumer sees from the data whether it is whole. If the input
// ends in any other error, an unfinished event is dropped and the error returned.
func (r *Reader) Next() ([]byte, error) {
	r.hasData = false
	r.joined = r.joined[:0]
	for {
		start, end, ok := r.nextLine()
		switch {
		case ok && r.framing == Lines:
			if start < end {
				return r.buf[start:end], nil
			}
		case ok && start == end:
			if data := r.data(); len(data) > 0 {
				return data, nil
			}
			r.hasData = false
		case ok:
			r.field(start, end)
		case r.err == io.EOF:
			return r.last()
		case r.err != nil:
			return nil, r.err
		default:
			if err := r.fill(); err != nil {
				return nil, err
			}
		}
	}
}

// last returns what stands between the last blank line and the end of input.
func (r *Reader) last() ([]byte, error) {
	start, end := r.trimMark(r.line, len(r.buf))
	r.line = end
	if r.framing == Lines {
		r.hasData, r.dataStart, r.dataEnd = true, start, end
	} else {
		r.field(start, end)
	}
	data := r.data()
	r.hasData = false
	if len(data) == 0 {
		return nil, io.EOF
	}
	return data, nil
}

// nextLine returns where the next line lies in buf, without its end, or false
// if buf holds no whole line.
func (r *Reader) nextLine() (start, end int, ok bool) {
	if r.skipLF && r.line < len(r.buf) {
		r.skipLF = false
		if r.buf[r.line] == '\n' {
			r.line++
		}
	}
	from := max(r.line, r.scanned)
	length := lineEnd(r.buf[from:])
	if length < 0 {
		r.scanned = len(r.buf)
		return 0, 0, false
	}
	end = from + length
	start, end = r.trimMark(r.line, end)
	r.skipLF = r.buf[end] == '\r'
	r.line = end + 1
	return start, end, true
}

// lineEnd is the index of the first LF or CR in b, or -1. It looks at more and more
// of b at a time: where lines end in CR, to look for an LF in all that came would
// cost the square of it.
func lineEnd(b []byte) int {
	for from, size := 0, 256; from < len(b); from, size = from+size, 2*size {
		part := b[from:min(from+size, len(b))]
		lf := bytes.IndexByte(part, '\n')
		if lf >= 0 {
			part = part[:lf]
		}
		if cr := bytes.IndexByte(part, '\r'); cr >= 0 {
			return from + cr
		}
		if lf >= 0 {
			return from + lf
		}
	}
	return -1
}

// trimMark takes a byte order mark off the first line.
func (r *Reader) trimMark(start, end int) (int, int) {
	if !r.begun {
		r.begun = true
		if bytes.HasPrefix(r.buf[start:end], byteOrderMark) {
			start += len(byteOrderMark)
		}
	}
	return start, end
}

// field adds the line at buf[start:end] to the event if it is a data field.
func (r *Reader) field(start, end int) {
	line := r.buf[start:end]
	switch {
	case bytes.HasPrefix(line, []byte("data:")):
		start += len("data:")
		if start < end && r.buf[start] == ' ' {
			start++
		}
	case string(line) == "data": // a field without a colon has an empty value
		start = end
	default:
		return
	}
	if !r.hasData {
		r.hasData = true
		r.dataStart, r.dataEnd = start, end
		return
	}
	if len(r.joined) == 0 {
		r.joined = append(r.joined, r.buf[r.dataStart:r.dataEnd]...)
	}
	r.joined = append(r.joined, '\n')
	r.joined = append(r.joined, r.buf[start:end]...)
}

// data is the event so far.
func (r *Reader) data() []byte {
	switch {
	case !r.hasData:
		return nil
	case len(r.joined) > 0:
		return r.joined
	}
	return r.buf[r.dataStart:r.dataEnd]
}

// fill reads more input behind what must be kept.
func (r *Reader) fill() error {
	r.compact()
	if len(r.buf)+len(r.joined) > r.max {
		return ErrTooLong
	}
	if len(r.buf) == cap(r.buf) {
		grown := make([]byte, len(r.buf), max(readSize, 2*cap(r.buf)))
		copy(grown, r.buf)
		r.buf = grown
	}
	n, err := r.src.Read(r.buf[len(r.buf):cap(r.buf)])
	r.buf = r.buf[:len(r.buf)+n]
	r.err = err
	return nil
}

// compact drops the bytes that neither the event so far nor the current line needs.
func (r *Reader) compact() {
	keep := r.line
	if r.hasData && len(r.joined) == 0 {
		keep = r.dataStart
	}
	if keep == 0 {
		return
	}
	r.buf = r.buf[:copy(r.buf, r.buf[keep:])]
	r.line -= keep
	r.scanned = max(0, r.scanned-keep)
	r.dataStart -= keep
	r.dataEnd -= keep
}

// Append appends an event with the given data, which must not contain a line
// end, in the form that the strictest client parses: `data: `, LF, a blank line.
func Append(dst, data []byte) []byte {
	dst = append(dst, "data: "...)
	dst = append(dst, data...)
	return append(dst, '\n', '\n')
}
