package e2e

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	"goless.io/operator/api/v1beta1"
)

// uploading sends itself a form with a file of 100 MB, which is kept in /tmp, and says how much
// of it arrived, or what went wrong.
const uploading = `package handlers

import (
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
)

func Handler(w http.ResponseWriter, r *http.Request) {
	body, into := io.Pipe()
	form := multipart.NewWriter(into)
	go func() {
		file, err := form.CreateFormFile("file", "large")
		if err == nil {
			_, err = io.Copy(file, io.LimitReader(zeros{}, 100<<20))
		}
		if err == nil {
			err = form.Close()
		}
		into.CloseWithError(err)
	}()
	upload, _ := http.NewRequest(http.MethodPost, "/", body)
	upload.Header.Set("Content-Type", form.FormDataContentType())
	file, header, err := upload.FormFile("file")
	if err != nil {
		fmt.Fprint(w, err)
		return
	}
	file.Close()
	upload.MultipartForm.RemoveAll()
	fmt.Fprint(w, header.Size)
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }
`

// With scratch a function keeps an upload of 100 MB in /tmp, on disk and in memory, in both
// shapes of pods. Without it nothing can be written.
func TestScratch(t *testing.T) {
	for name, scratch := range map[string]*v1beta1.Scratch{
		"none":   nil,
		"disk":   {Size: resource.MustParse("256Mi")},
		"memory": {Size: resource.MustParse("256Mi"), Medium: v1beta1.ScratchInMemory},
	} {
		for _, strategy := range []v1beta1.BuildStrategy{v1beta1.BuildShared, v1beta1.BuildInPod} {
			t.Run(name+string(strategy), func(t *testing.T) {
				t.Parallel()
				ns := newNamespace(t)
				fn := ns.ready(ns.apply(function("uploading", uploading, func(spec *v1beta1.FunctionSpec) {
					spec.Build, spec.Scratch = &v1beta1.BuildSpec{Strategy: strategy}, scratch
					spec.Resources = &v1beta1.Resources{Limits: v1beta1.Amounts{Memory: new(resource.MustParse("512Mi"))}}
				})))
				if scratch != nil {
					ns.answers(fn, "104857600")
					return
				}
				ns.reach(fn)
				if got := ns.call("GET", url(fn), "").Body; got == "104857600" {
					t.Error("without scratch the function has written 100 MB")
				}
			})
		}
	}
}
