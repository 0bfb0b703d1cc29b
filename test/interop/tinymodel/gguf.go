package tinymodel

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
)

// The types of values and tensors that we use, by their numbers in GGUF.
const (
	typeUint32  = 4
	typeInt32   = 5
	typeFloat32 = 6
	typeString  = 8
	typeArray   = 9

	tensorFloat32 = 0
)

const (
	ggufVersion = 3
	// alignment is where tensors begin, unless a file says otherwise.
	alignment = 32
)

// gguf is a file in llama.cpp's format: a header, values by key, tensors.
// https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
type gguf struct {
	values  bytes.Buffer
	count   uint64
	tensors []tensor
}

// tensor is a matrix of rows of as many columns; a vector is one row.
type tensor struct {
	name          string
	columns, rows int
	data          []float32
}

// set adds a value: uint32, float32, string, []string, []int32.
func (g *gguf) set(key string, value any) {
	g.count++
	writeString(&g.values, key)
	switch v := value.(type) {
	case uint32:
		write(&g.values, uint32(typeUint32), v)
	case float32:
		write(&g.values, uint32(typeFloat32), v)
	case string:
		write(&g.values, uint32(typeString))
		writeString(&g.values, v)
	case []int32:
		write(&g.values, uint32(typeArray), uint32(typeInt32), uint64(len(v)), v)
	case []string:
		write(&g.values, uint32(typeArray), uint32(typeString), uint64(len(v)))
		for _, s := range v {
			writeString(&g.values, s)
		}
	default:
		panic(fmt.Sprintf("no GGUF value for %s: %T", key, value))
	}
}

// matrix adds a tensor of zeros and returns its data, row by row.
func (g *gguf) matrix(name string, columns, rows int) []float32 {
	data := make([]float32, columns*rows)
	g.tensors = append(g.tensors, tensor{name, columns, rows, data})
	return data
}

// ones adds a vector that a layer's norm multiplies with.
func (g *gguf) ones(name string, columns int) {
	for i, data := 0, g.matrix(name, columns, 1); i < columns; i++ {
		data[i] = 1
	}
}

// bytes is the file.
func (g *gguf) bytes() []byte {
	var out bytes.Buffer
	out.WriteString("GGUF")
	write(&out, uint32(ggufVersion), uint64(len(g.tensors)), g.count)
	out.Write(g.values.Bytes())
	offset := 0
	for _, t := range g.tensors {
		writeString(&out, t.name)
		if t.rows == 1 {
			write(&out, uint32(1), uint64(t.columns))
		} else {
			write(&out, uint32(2), uint64(t.columns), uint64(t.rows))
		}
		write(&out, uint32(tensorFloat32), uint64(offset))
		offset += padded(4 * len(t.data))
	}
	for _, t := range g.tensors {
		out.Write(make([]byte, padded(out.Len())-out.Len()))
		for _, value := range t.data {
			write(&out, math.Float32bits(value))
		}
	}
	return out.Bytes()
}

func padded(n int) int { return (n + alignment - 1) / alignment * alignment }

func write(out *bytes.Buffer, values ...any) {
	for _, value := range values {
		if err := binary.Write(out, binary.LittleEndian, value); err != nil {
			panic(err) // not of a fixed size: a mistake here
		}
	}
}

func writeString(out *bytes.Buffer, s string) {
	write(out, uint64(len(s)))
	out.WriteString(s)
}
