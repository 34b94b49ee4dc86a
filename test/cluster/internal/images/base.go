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

// The folders and files of this machine that go into the static base. Debian's
// packages ca-certificates and tzdata bring them.
const (
	certificates = "/etc/ssl/certs/ca-certificates.crt"
	timeZones    = "/usr/share/zoneinfo"
)

// The names of the images that Push makes, below the address of a registry.
const (
	staticName = "/base/static:latest"
	pauseName  = "/base/pause:latest"
)

// StaticRef is the reference of the base for static programs.
func StaticRef(registry string) string { return registry + staticName }

// PauseRef is the reference of the image that holds a pod's namespaces.
func PauseRef(registry string) string { return registry + pauseName }

// Push makes both images and pushes them to the registry at an address such as
// 127.0.0.1:5000. The pause image runs the given static program.
func Push(registry, pauseProgram string) error {
	static, err := staticImage()
	if err != nil {
		return fmt.Errorf("make the static base image: %w", err)
	}
	if err := push(StaticRef(registry), static); err != nil {
		return err
	}
	pause, err := pauseImage(pauseProgram)
	if err != nil {
		return fmt.Errorf("make the pause image: %w", err)
	}
	return push(PauseRef(registry), pause)
}

func push(reference string, image v1.Image) error {
	ref, err := name.ParseReference(reference)
	if err != nil {
		return err
	}
	if err := remote.Write(ref, image); err != nil {
		return fmt.Errorf("push %s: %w", reference, err)
	}
	return nil
}

// staticImage holds what a static program expects of a system, and no program.
func staticImage() (v1.Image, error) {
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
	if err := files.copyZones(timeZones); err != nil {
		return nil, err
	}
	return image(files, v1.Config{
		User: "65532:65532",
		Env: []string{
			"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
			"SSL_CERT_FILE=" + certificates,
		},
		WorkingDir: "/",
	})
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
	return image(files, v1.Config{User: "65535:65535", Entrypoint: []string{"/pause"}})
}

// image is an image of one layer, for the platform of this machine.
func image(files *layer, config v1.Config) (v1.Image, error) {
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
	file.OS, file.Architecture = "linux", runtime.GOARCH
	file.Config = config
	return mutate.ConfigFile(image, file)
}
