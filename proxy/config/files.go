package config

import "slices"

// Files returns the files that c names beside its credentials, sorted: key sets,
// lists of denied subjects and certificates.
func (c *Config) Files() []string {
	files := []string{c.Tokens.KeySet.File, c.Tokens.KeySet.CAFile}
	if denied := c.Tokens.DeniedSubjects; denied != nil {
		files = append(files, denied.File)
	}
	for i := range c.Units {
		if tls := c.Units[i].TLS; tls != nil {
			files = append(files, tls.CAFile)
		}
	}
	return sortedNames(files)
}

// Credentials returns the entries of the credentials directory that c names, sorted.
func (c *Config) Credentials() []string {
	var entries []string
	for i := range c.Units {
		entries = append(entries, c.Units[i].Credential)
	}
	return sortedNames(entries)
}

// sortedNames is the list sorted, each once, without the empty ones.
func sortedNames(list []string) []string {
	list = slices.DeleteFunc(list, func(name string) bool { return name == "" })
	slices.Sort(list)
	return slices.Compact(list)
}
