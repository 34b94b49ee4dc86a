package images

import (
	"fmt"
	"os"
	"runtime"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// The directories and files of this machine that are copied to the static base image. They come
// from Debian's packages ca-certificates and tzdata.
const (
	certificates = "/etc/ssl/certs/ca-certificates.crt"
	timeZones    = "/usr/share/zoneinfo"
)

// The names of the images that Push creates, relative to the address of a registry.
const (
	staticName = "/base/static:latest"
	pauseName  = "/base/pause:latest"
)

// StaticRef returns the reference of the base image for static programs.
func StaticRef(registry string) string { return registry + staticName }

// PauseRef returns the reference of the pause image, which holds a pod's namespaces open.
func PauseRef(registry string) string { return registry + pauseName }

// Push creates both images and pushes them to the registry at an address such as 127.0.0.1:5000.
// The pause image runs the given static program.
func Push(registry, pauseProgram string) error {
	static, err := staticIndex()
	if err != nil {
		return fmt.Errorf("make the static base image: %w", err)
	}
	if err := push(StaticRef(registry), static, remote.WriteIndex); err != nil {
		return err
	}
	pause, err := pauseImage(pauseProgram)
	if err != nil {
		return fmt.Errorf("make the pause image: %w", err)
	}
	return push(PauseRef(registry), pause, remote.Write)
}

func push[T any](reference string, content T, write func(name.Reference, T, ...remote.Option) error) error {
	ref, err := name.ParseReference(reference)
	if err != nil {
		return err
	}
	if err := write(ref, content); err != nil {
		return fmt.Errorf("push %s: %w", reference, err)
	}
	return nil
}

// staticIndex returns the static base image for every architecture for which images are built, not
// only for that of this machine.
func staticIndex() (v1.ImageIndex, error) {
	files, err := staticFiles()
	if err != nil {
		return nil, err
	}
	index := v1.ImageIndex(empty.Index)
	for _, arch := range []string{"amd64", "arm64"} {
		static, err := image(files, arch, v1.Config{
			User: "65532:65532",
			Env: []string{
				"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
				"SSL_CERT_FILE=" + certificates,
			},
			WorkingDir: "/",
		})
		if err != nil {
			return nil, err
		}
		platform := &v1.Platform{OS: "linux", Architecture: arch}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: static, Descriptor: v1.Descriptor{Platform: platform}})
	}
	return index, nil
}

// staticFiles returns the files that a static program expects.
func staticFiles() (*layer, error) {
	files := newLayer()
	for _, f := range []struct{ name, content string }{
		{"etc/passwd", "root:x:0:0:root:/root:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/home/nonroot:/sbin/nologin\n"},
		{"etc/group", "root:x:0:\nnonroot:x:65532:\n"},
		{"etc/nsswitch.conf", "hosts: files dns\n"},
	} {
		if err := files.file(f.name, 0o644, []byte(f.content)); err != nil {
			return nil, err
		}
	}
	if err := files.dir("tmp", 0o1777); err != nil {
		return nil, err
	}
	if err := files.copyFile(certificates); err != nil {
		return nil, err
	}
	return files, files.copyZones(timeZones)
}

func pauseImage(program string) (v1.Image, error) {
	content, err := os.ReadFile(program)
	if err != nil {
		return nil, err
	}
	files := newLayer()
	if err := files.file("pause", 0o755, content); err != nil {
		return nil, err
	}
	return image(files, runtime.GOARCH, v1.Config{User: "65535:65535", Entrypoint: []string{"/pause"}})
}

// image returns an image with one layer.
func image(files *layer, arch string, config v1.Config) (v1.Image, error) {
	layer, err := files.build()
	if err != nil {
		return nil, err
	}
	image, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return nil, err
	}
	file, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	file = file.DeepCopy()
	file.OS, file.Architecture = "linux", arch
	file.Config = config
	return mutate.ConfigFile(image, file)
}
