package upload

import (
	"archive/zip"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"mime/multipart"
	"net/http"
	"path"
)

const largest = 10 << 20

type digest struct {
	name string
	size int64
	sum  string
}

func read(part *multipart.Part) (d digest, err error) {
	h := sha256.New()
	d.name = path.Base(part.FileName())
	d.size, err = io.Copy(h, io.LimitReader(part, largest))
	d.sum = hex.EncodeToString(h.Sum(nil))
	return d, err
}

func write(w io.Writer, all []digest) (err error) {
	archive := zip.NewWriter(w)
	defer func() { err = errors.Join(err, archive.Close()) }()
	for _, d := range all {
		entry, err := archive.Create(d.name + ".sha256")
		if err != nil {
			return err
		}
		if _, err := io.WriteString(entry, d.sum+"\n"); err != nil {
			return err
		}
	}
	return nil
}

func Handler(w http.ResponseWriter, r *http.Request) {
	form, err := r.MultipartReader()
	if err != nil {
		http.Error(w, "send a form with files", http.StatusUnsupportedMediaType)
		return
	}
	var all []digest
	for {
		part, err := form.NextPart()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		d, err := read(part)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		all = append(all, d)
	}
	var out io.Writer = w
	if r.Header.Get("Accept-Encoding") == "gzip" {
		w.Header().Set("Content-Encoding", "gzip")
		zipped := gzip.NewWriter(w)
		defer zipped.Close()
		out = zipped
	}
	if err := write(out, all); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}
