// Package tinymodel makes a model that llama.cpp runs. It is trained here, by counting
// which byte follows which in a text, and weighs a megabyte and a half. Its completions are
// poor, but they are those of a real engine: tokens, slots, a cache and a clock.
package tinymodel

import (
	"fmt"
	"math"
	"os"
)

// A token is a byte. Behind the bytes come those tokens that no text has.
const (
	tokenEnd = 256 + iota
	tokenPrefix
	tokenSuffix
	tokenMiddle
	tokenRepo
	tokenFile
	vocabulary
)

const (
	// width is that of the hidden state: a place for each token, in heads of headWidth.
	width     = 288
	headWidth = 32
	// feedForward is the least that llama.cpp takes; all of it is zero.
	feedForward = 32
	// Context is how many tokens the model can go on for.
	Context = 32 << 10
	// never is the logit of what is not to be said.
	never = -30
)

// special names the tokens behind the bytes.
var special = [...]string{"<|endoftext|>", "<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "<|repo_name|>", "<|file_sep|>"}

// Write trains the model on a text and writes it to a file in GGUF.
func Write(path string, text []byte) error {
	var g gguf
	describe(&g)
	tokenize(&g)
	weigh(&g, text)
	return os.WriteFile(path, g.bytes(), 0o644)
}

// describe says what kind of model it is: Llama's, with one layer.
func describe(g *gguf) {
	g.set("general.architecture", "llama")
	g.set("general.name", "tiny")
	for key, value := range map[string]uint32{
		"context_length": Context, "embedding_length": width, "feed_forward_length": feedForward, "block_count": 1,
		"attention.head_count": width / headWidth, "attention.head_count_kv": 1, "rope.dimension_count": headWidth,
		"vocab_size": vocabulary,
	} {
		g.set("llama."+key, value)
	}
	g.set("llama.attention.layer_norm_rms_epsilon", float32(1e-5))
}

// tokenize gives the tokens, in the form of GPT-2: its bytes, nothing merged.
func tokenize(g *gguf) {
	const normal, control = 1, 3
	var tokens []string
	var kinds []int32
	for b := range 256 {
		tokens, kinds = append(tokens, string(runeOf(b))), append(kinds, normal)
	}
	for _, name := range special {
		tokens, kinds = append(tokens, name), append(kinds, control)
	}
	g.set("tokenizer.ggml.model", "gpt2")
	g.set("tokenizer.ggml.pre", "gpt-2")
	g.set("tokenizer.ggml.tokens", tokens)
	g.set("tokenizer.ggml.token_type", kinds)
	g.set("tokenizer.ggml.merges", []string{})
	for key, token := range map[string]uint32{
		"bos": tokenEnd, "eos": tokenEnd, "fim_pre": tokenPrefix, "fim_suf": tokenSuffix, "fim_mid": tokenMiddle,
		"fim_rep": tokenRepo, "fim_sep": tokenFile,
	} {
		g.set("tokenizer.ggml."+key+"_token_id", token)
	}
}

// runeOf is how GPT-2 writes a byte: those that print as they are, the others as the
// runes from 256 on.
func runeOf(b int) rune {
	prints := func(b int) bool { return b >= '!' && b <= '~' || b >= 0xA1 && b <= 0xAC || b >= 0xAE }
	if prints(b) {
		return rune(b)
	}
	r := rune(256)
	for other := range b {
		if !prints(other) {
			r++
		}
	}
	return r
}

// weigh sets the weights. A token is embedded as the place of its own, neither
// attention nor feed-forward add to it (their last matrices are zero), and the output
// is the logarithm of how often each token follows it.
func weigh(g *gguf, text []byte) {
	embedding := g.matrix("token_embd.weight", width, vocabulary)
	for token := range vocabulary {
		embedding[token*width+token] = 1
	}
	g.ones("output_norm.weight", width)
	output := g.matrix("output.weight", width, vocabulary)
	follows := count(text)
	// The norm makes the embedding this much longer.
	scale := float32(math.Sqrt(width))
	for last := range vocabulary {
		for next := range vocabulary {
			output[next*width+last] = follows(last, next) / scale
		}
	}
	layer := func(name string) string { return fmt.Sprintf("blk.0.%s.weight", name) }
	g.ones(layer("attn_norm"), width)
	g.matrix(layer("attn_q"), width, width)
	g.matrix(layer("attn_k"), width, headWidth)
	g.matrix(layer("attn_v"), width, headWidth)
	g.matrix(layer("attn_output"), width, width)
	g.ones(layer("ffn_norm"), width)
	g.matrix(layer("ffn_gate"), width, feedForward)
	g.matrix(layer("ffn_up"), width, feedForward)
	g.matrix(layer("ffn_down"), feedForward, width)
}

// count trains: the logarithm of how often a token comes after another one. Only bytes
// of the text are ever said, so that an answer goes on for as long as it may, and a
// mark is followed by what follows a newline.
func count(text []byte) func(last, next int) float32 {
	var pairs [256][256]float64
	var sums [256]float64
	for i := 1; i < len(text); i++ {
		pairs[text[i-1]][text[i]]++
		sums[text[i-1]]++
	}
	return func(last, next int) float32 {
		if last > math.MaxUint8 {
			last = '\n'
		}
		if next > math.MaxUint8 || pairs[last][next] == 0 {
			return never
		}
		return float32(math.Log(pairs[last][next] / sums[last]))
	}
}
