package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/ghostline-dev/ghostline/client"
	"github.com/ghostline-dev/ghostline/client/prompt"
	"github.com/ghostline-dev/ghostline/internal/localstack"
)

const (
	sceneFile = "proxy/reload_files.go"
	// sceneLine is the line at whose end the cursor is. It is looked for, so that
	// the file can change around it.
	sceneLine = "\tdata, err := io.ReadAll(io.LimitReader(f, maxFile+1))\n"
)

// scene is a source file of the repository with a cursor in it.
type scene struct {
	file string
	text
}

// text is a file's content with a cursor in it.
type text struct {
	content string
	offset  int // of the cursor, in bytes
}

// findScene reads the scene from the repository.
func findScene(repository string) (*scene, error) {
	content, err := os.ReadFile(filepath.Join(repository, sceneFile))
	if err != nil {
		return nil, fmt.Errorf("%w; run the demo in the repository's top folder, or name it by -repository", err)
	}
	i := strings.Index(string(content), sceneLine)
	if i < 0 {
		return nil, fmt.Errorf("%s has no line %q any more; choose another one as sceneLine in hack/demo/scene.go", sceneFile, strings.TrimSpace(sceneLine))
	}
	return &scene{file: sceneFile, text: text{content: string(content), offset: i + len(sceneLine) - 1}}, nil
}

// cursor is where the cursor is as an editor counts.
func (t text) cursor() prompt.Cursor {
	before := t.content[:t.offset]
	return prompt.Cursor{Line: strings.Count(before, "\n") + 1, Column: t.offset - strings.LastIndexByte(before, '\n')}
}

// request asks for what comes at the cursor: always the same, for it asks for the
// likeliest.
func (t text) request(maxTokens int) (client.Request, error) {
	parts, err := prompt.Cut(t.content, t.cursor(), prompt.DefaultBudget)
	if err != nil {
		return client.Request{}, err
	}
	greedy := 0.0
	return client.Request{
		Model: localstack.Model, Prompt: parts.Prompt, Suffix: parts.Suffix, MaxTokens: maxTokens, Temperature: &greedy,
	}, nil
}

// typing is the text after each of n keystrokes with which a user types at the
// cursor what the file really has there. What is not typed yet is not in it.
func (t text) typing(n int) ([]text, error) {
	rest := t.content[t.offset:]
	var typed []int // bytes, by keystroke
	for i := range rest {
		if len(typed) == n {
			break
		}
		if i > 0 {
			typed = append(typed, i)
		}
	}
	if len(typed) < n {
		return nil, fmt.Errorf("only %d characters come after the cursor; the typist needs more than %d", len(typed), n)
	}
	before, after := t.content[:t.offset], rest[typed[n-1]:]
	var texts []text
	for _, i := range typed {
		texts = append(texts, text{content: before + rest[:i] + after, offset: t.offset + i})
	}
	return texts, nil
}
