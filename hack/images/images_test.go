package main

import (
	"archive/tar"
	"bytes"
	"crypto/x509"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

const module = "../.."

// here is the platform of images that run on this machine.
var here = "linux/" + runtime.GOARCH

// images runs this program and returns the folder of archives.
func images(t *testing.T, environment map[string]string, args ...string) string {
	t.Helper()
	out := t.TempDir()
	err := run(t.Context(), append([]string{"-out", out}, args...), func(name string) string { return environment[name] }, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// unpack writes a tar's files below a new folder, which all may read.
func unpack(t *testing.T, r io.Reader) (dir string, headers map[string]*tar.Header) {
	t.Helper()
	dir = t.TempDir()
	headers = map[string]*tar.Header{}
	archive := tar.NewReader(r)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return dir, headers
		}
		if err != nil {
			t.Fatal(err)
		}
		headers[header.Name] = header
		path := filepath.Join(dir, header.Name)
		if header.Typeflag == tar.TypeDir {
			err = os.MkdirAll(path, 0o755)
		} else {
			var content []byte
			if content, err = io.ReadAll(archive); err == nil {
				err = errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, content, header.FileInfo().Mode()))
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// openLayout unpacks an archive and returns its only descriptor.
func openLayout(t *testing.T, file string) (layout.Path, v1.Descriptor) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	dir, _ := unpack(t, f)
	path, err := layout.FromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	index, err := path.ImageIndex()
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil || len(manifest.Manifests) != 1 {
		t.Fatalf("%s: %+v, %v; want one descriptor", file, manifest, err)
	}
	return path, manifest.Manifests[0]
}

// TestProgramsRun builds every image for this machine and runs its program as a
// container does: as the image's user, with nothing but the image's files.
func TestProgramsRun(t *testing.T) {
	out := images(t, nil, "-platforms", here, "-version", "v1.2.3", "-prefix", "registry.example.com/team/")
	for _, p := range programs() {
		t.Run(p.name, func(t *testing.T) {
			file := filepath.Join(out, p.name+".tar")
			path, descriptor := openLayout(t, file)
			name := "registry.example.com/team/" + p.image + ":v1.2.3"
			if got := descriptor.Annotations["io.containerd.image.name"]; got != name {
				t.Errorf("containerd is told the name %q, want %q", got, name)
			}
			image, err := path.Image(descriptor.Digest)
			if err != nil {
				t.Fatal(err)
			}
			if err := validate.Image(image); err != nil {
				t.Error(err)
			}
			if _, err := tarball.ImageFromPath(file, nil); err != nil {
				t.Errorf("as a Docker archive: %v", err)
			}
			checkConfig(t, p, image)
			content := onlyLayer(t, image)
			defer content.Close()
			dir, headers := unpack(t, content)
			checkFiles(t, p, headers)
			checkStatic(t, filepath.Join(dir, p.name))
			checkVersion(t, p, dir)
		})
	}
}

// onlyLayer is the content of an image's layer, of which there is one.
func onlyLayer(t *testing.T, image v1.Image) io.ReadCloser {
	t.Helper()
	layers, err := image.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("%d layers, %v; want one", len(layers), err)
	}
	content, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func checkConfig(t *testing.T, p program, image v1.Image) {
	t.Helper()
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if config.OS+"/"+config.Architecture != here || config.Config.User != "65532:65532" || !slices.Equal(config.Config.Entrypoint, []string{"/" + p.name}) || config.Config.Cmd != nil {
		t.Errorf("the config is %+v", config)
	}
	labels := config.Config.Labels
	if labels["org.opencontainers.image.version"] != "v1.2.3" || labels["org.opencontainers.image.licenses"] != "Apache-2.0" || labels["org.opencontainers.image.source"] == "" {
		t.Errorf("the labels are %q", labels)
	}
}

// checkFiles looks at the owners and modes that the image gives its files.
func checkFiles(t *testing.T, p program, headers map[string]*tar.Header) {
	t.Helper()
	want := []string{"etc/", "etc/group", "etc/passwd", "etc/ssl/", "etc/ssl/certs/", "etc/ssl/certs/ca-certificates.crt", p.name}
	var got []string
	for name, header := range headers {
		got = append(got, name)
		if header.Uid != 0 || header.Gid != 0 || header.Mode&^0o755 != 0 {
			t.Errorf("%s belongs to %d:%d, mode %o; its user must not be able to change it", name, header.Uid, header.Gid, header.Mode)
		}
	}
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("the image has %q, want %q", got, want)
	}
}

func checkStatic(t *testing.T, file string) {
	t.Helper()
	f, err := elf.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, segment := range f.Progs {
		if segment.Type == elf.PT_INTERP || segment.Type == elf.PT_DYNAMIC {
			t.Errorf("%s needs a loader: it has %v", filepath.Base(file), segment.Type)
		}
	}
}

// checkVersion has the program tell its version.
func checkVersion(t *testing.T, p program, dir string) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("the programs are for Linux")
	}
	command := asContainer(t, dir, p.name)
	command.Env = []string{}
	output, err := command.CombinedOutput()
	if err != nil || !strings.HasPrefix(string(output), p.name+" ") {
		t.Errorf("%q, %v; want its name and version", output, err)
	}
}

// TestAllPlatforms: an archive for several platforms has an image for each. What is
// built is another architecture's too.
func TestAllPlatforms(t *testing.T) {
	path, descriptor := openLayout(t, filepath.Join(images(t, map[string]string{"SOURCE_DATE_EPOCH": "1700000000"}, "modelserver"), "modelserver.tar"))
	if got := descriptor.Annotations["io.containerd.image.name"]; !strings.HasPrefix(got, "docker.io/library/ghostline-modelserver:") {
		t.Errorf("containerd is told the name %q", got)
	}
	root, err := path.ImageIndex()
	if err != nil {
		t.Fatal(err)
	}
	index, err := root.ImageIndex(descriptor.Digest)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(index); err != nil {
		t.Error(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	var platforms []string
	for _, one := range manifest.Manifests {
		platforms = append(platforms, one.Platform.String())
		image, err := index.Image(one.Digest)
		if err != nil {
			t.Fatal(err)
		}
		config, err := image.ConfigFile()
		if err != nil || config.OS+"/"+config.Architecture != one.Platform.String() || config.Created.Unix() != 1700000000 {
			t.Errorf("%s: %+v, %v", one.Platform, config, err)
		}
	}
	if !slices.Equal(platforms, []string{"linux/amd64", "linux/arm64"}) {
		t.Errorf("the platforms are %q", platforms)
	}
}

// TestReproducible: two checkouts in different folders, of files of different ages,
// give the same bytes.
func TestReproducible(t *testing.T) {
	var archives [2][]byte
	for i := range archives {
		copied := filepath.Join(t.TempDir(), fmt.Sprintf("checkout-%d", i))
		copyModule(t, copied, time.Unix(int64(1e9*(i+1)), 0))
		var err error
		if archives[i], err = os.ReadFile(filepath.Join(images(t, nil, "-module", copied, "-platforms", here, "proxy"), "proxy.tar")); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(archives[0], archives[1]) {
		t.Error("two builds of the same source differ")
	}
}

// copyModule copies what a build of the module reads, without git's stamps.
func copyModule(t *testing.T, to string, at time.Time) {
	t.Helper()
	err := filepath.WalkDir(module, func(path string, entry os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, _ := filepath.Rel(module, path)
		switch copied := filepath.Join(to, relative); {
		case entry.Name() == ".git" || relative == "bin":
			if entry.IsDir() {
				return filepath.SkipDir
			}
			return nil
		case entry.IsDir():
			return os.MkdirAll(copied, 0o755)
		case !entry.Type().IsRegular():
			return nil
		default:
			content, err := os.ReadFile(path)
			return errors.Join(err, os.WriteFile(copied, content, 0o644), os.Chtimes(copied, at, at))
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestAuthorities: Go can use the bundle, and it has what model providers' certificates
// hang on.
func TestAuthorities(t *testing.T) {
	data := authorities()
	if !x509.NewCertPool().AppendCertsFromPEM(data) {
		t.Fatal("Go finds no certificate in it")
	}
	if n := bytes.Count(data, []byte("BEGIN CERTIFICATE")); n < 100 {
		t.Errorf("it has %d authorities", n)
	}
}

// TestRootfs writes what the Dockerfile copies: the same files as the images have.
func TestRootfs(t *testing.T) {
	dir := t.TempDir()
	if err := run(t.Context(), []string{"-platforms", here, "-rootfs", dir, "modelserver"}, func(string) string { return "" }, t.Output()); err != nil {
		t.Fatal(err)
	}
	entries, err := read(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got, want []string
	for _, e := range entries {
		got = append(got, e.path)
	}
	for _, e := range rootfs("modelserver", []byte{0}) {
		want = append(want, e.path)
	}
	if !slices.Equal(got, want) {
		t.Errorf("it wrote %q, want %q", got, want)
	}
	checkVersion(t, program{name: "modelserver"}, dir)
}

func TestRefusals(t *testing.T) {
	for _, c := range []struct{ args, epoch, want string }{
		{"-platforms windows/amd64", "", `"windows/amd64" is none that an image can be for`},
		{"nothing", "", `no program is called "nothing"; they are operator, `},
		{"-rootfs x", "", "-rootfs is for one program and one platform"},
		{"proxy", "today", `SOURCE_DATE_EPOCH is "today"`},
		{"-module testdata/none proxy", "", "go build ./cmd/proxy"},
	} {
		err := run(t.Context(), strings.Fields(c.args), func(string) string { return c.epoch }, io.Discard)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.args, err, c.want)
		}
	}
}

func TestNames(t *testing.T) {
	for version, want := range map[string]string{"(devel)": "devel", "v1.2.3": "v1.2.3", "v0.0.0-2026-abc+dirty": "v0.0.0-2026-abc-dirty"} {
		if got := (&binary{version: version}).tag(); got != want {
			t.Errorf("the tag of %s is %s, want %s", version, got, want)
		}
	}
	for name, want := range map[string]string{
		"a:1": "docker.io/library/a:1", "team/a:1": "docker.io/team/a:1", "localhost/a:1": "localhost/a:1",
		"ghcr.io/team/a:1": "ghcr.io/team/a:1", "registry:5000/a:1": "registry:5000/a:1",
	} {
		n := named{name: name}
		if got := n.fullName(); got != want || n.tag() != "1" {
			t.Errorf("%s is %s with the tag %s, want %s and 1", name, got, n.tag(), want)
		}
	}
}

// asContainer runs a program as an image's user; if this test may, with the image's
// files for all that there is.
func asContainer(t *testing.T, dir, name string) *exec.Cmd {
	t.Helper()
	argument := "-version"
	if name == "ghostline" {
		argument = "version"
	}
	if os.Getuid() != 0 {
		return exec.CommandContext(t.Context(), filepath.Join(dir, name), argument)
	}
	command := exec.CommandContext(t.Context(), "/"+name, argument)
	command.Dir = "/"
	confine(command, dir)
	return command
}
