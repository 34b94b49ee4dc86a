// Package production is a Function with everything that a pod in production may use: a
// certificate and its key as files, space for large uploads, and a token for the Kubernetes
// API.
package production

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"os"
)

var mux = http.NewServeMux()

func init() {
	mux.HandleFunc("GET /certificate", certificate)
	mux.HandleFunc("GET /send", send)
	mux.HandleFunc("POST /upload", upload)
	mux.HandleFunc("GET /api/", ask)
}

// Handler is the Function.
func Handler(w http.ResponseWriter, r *http.Request) { mux.ServeHTTP(w, r) }

// certificate responds with the name of the function's certificate, if its key matches.
func certificate(w http.ResponseWriter, _ *http.Request) {
	pair, err := tls.LoadX509KeyPair("/files/tls/tls.crt", "/files/tls/tls.key")
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	fmt.Fprint(w, pair.Leaf.DNSNames)
}

// upload responds with the size of a file in a form. What does not fit into memory is stored in
// /tmp.
func upload(w http.ResponseWriter, r *http.Request) {
	file, header, err := r.FormFile("file")
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	file.Close()
	r.MultipartForm.RemoveAll()
	fmt.Fprint(w, header.Size)
}

// send sends a form with a file of 100 MB to a URL, and responds with the result.
func send(w http.ResponseWriter, r *http.Request) {
	body, into := io.Pipe()
	form := multipart.NewWriter(into)
	go func() {
		file, err := form.CreateFormFile("file", "large")
		if err == nil {
			_, err = io.CopyN(file, zeros{}, 100_000_000)
		}
		if err == nil {
			err = form.Close()
		}
		into.CloseWithError(err)
	}()
	response, err := http.Post(r.FormValue("to"), form.FormDataContentType(), body)
	forward(w, response, err)
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// ask forwards a path to the Kubernetes API, with the token of the function.
func ask(w http.ResponseWriter, r *http.Request) {
	const account = "/var/run/secrets/kubernetes.io/serviceaccount/"
	token, err := os.ReadFile(account + "token")
	if err != nil {
		http.Error(w, err.Error(), http.StatusTeapot)
		return
	}
	authority, _ := os.ReadFile(account + "ca.crt")
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}}
	request, _ := http.NewRequestWithContext(r.Context(), http.MethodGet, "https://kubernetes.default.svc"+r.URL.Path, nil)
	request.Header.Set("Authorization", "Bearer "+string(token))
	response, err := client.Do(request)
	forward(w, response, err)
}

// forward copies the response of another server.
func forward(w http.ResponseWriter, response *http.Response, err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer response.Body.Close()
	w.WriteHeader(response.StatusCode)
	io.Copy(w, response.Body)
}
