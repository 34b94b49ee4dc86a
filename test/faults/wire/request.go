package wire

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// Request is one request of the operator.
type Request struct {
	Time time.Time

	// Verb is one of get, list, watch, create, update, patch, apply and delete. An apply
	// without a UID is a create.
	Verb string

	// Resource is the resource with its subresource, such as functions/status.
	Resource string

	// Namespace and Name are empty if the request has none. A create has the name of the new
	// object, if its body is JSON.
	Namespace, Name string

	// Body is the body of the request. An Injector may read it; it is not kept.
	Body []byte
}

// Write reports whether the request is a write.
func (r Request) Write() bool { return r.Verb != "get" && r.Verb != "list" && r.Verb != "watch" }

func (r Request) String() string {
	return strings.TrimSpace(fmt.Sprintf("%s %s %s", r.Verb, r.Resource, r.Name))
}

func parse(r *http.Request, body []byte) Request {
	request := Request{Time: time.Now(), Body: body}
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	switch {
	case len(parts) >= 2 && parts[0] == "api":
		parts = parts[2:]
	case len(parts) >= 3 && parts[0] == "apis":
		parts = parts[3:]
	default:
		parts = nil
	}
	if len(parts) >= 3 && parts[0] == "namespaces" {
		request.Namespace, parts = parts[1], parts[2:]
	}
	if len(parts) > 0 {
		request.Resource = parts[0]
	}
	if len(parts) > 1 {
		request.Name = parts[1]
	}
	if len(parts) > 2 {
		request.Resource += "/" + parts[2]
	}
	request.Verb = verb(r, request.Name)
	var object struct{ Metadata struct{ Name, UID string } }
	if json.Unmarshal(body, &object) != nil {
		return request
	}
	switch {
	case request.Verb == "create":
		request.Name = object.Metadata.Name
	case request.Verb == "apply" && object.Metadata.UID == "":
		request.Verb = "create"
	}
	return request
}

func verb(r *http.Request, name string) string {
	switch r.Method {
	case http.MethodPost:
		return "create"
	case http.MethodPut:
		return "update"
	case http.MethodDelete:
		return "delete"
	case http.MethodPatch:
		if strings.HasPrefix(r.Header.Get("Content-Type"), "application/apply-patch") {
			return "apply"
		}
		return "patch"
	}
	switch watch := r.URL.Query().Get("watch"); {
	case watch == "true" || watch == "1":
		return "watch"
	case name == "":
		return "list"
	}
	return "get"
}
