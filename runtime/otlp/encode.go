package otlp

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"strings"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// header returns the header of a request to the collector.
func (c *config) header() http.Header {
	header := c.headers.Clone()
	header.Set("Content-Type", "application/x-protobuf")
	if c.gzip {
		header.Set("Content-Encoding", "gzip")
	}
	if header.Get("User-Agent") == "" {
		header.Set("User-Agent", "goless-otlp")
	}
	return header
}

// encode returns the body of a request to the collector.
func (c *config) encode(batch []*tracepb.ResourceSpans) []byte {
	// TracesData has the same encoding as ExportTraceServiceRequest, whose package is linked
	// with grpc.
	request := &tracepb.TracesData{ResourceSpans: batch}
	body, err := proto.Marshal(request)
	if err != nil { // a string is not UTF-8
		replaceInvalid(request.ProtoReflect())
		body, _ = proto.Marshal(request) // there is no other cause
	}
	if !c.gzip {
		return body
	}
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, _ = w.Write(body) // a buffer does not fail
	_ = w.Close()
	return packed.Bytes()
}

// replaceInvalid replaces invalid UTF-8 in the strings of a message. Any client can send invalid
// UTF-8, and a batch that contains it cannot be encoded.
func replaceInvalid(message protoreflect.Message) {
	message.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		switch {
		case field.Kind() == protoreflect.StringKind && !field.IsList():
			message.Set(field, protoreflect.ValueOfString(strings.ToValidUTF8(value.String(), "\uFFFD")))
		case field.Message() == nil:
		case field.IsList():
			for i := range value.List().Len() {
				replaceInvalid(value.List().Get(i).Message())
			}
		default:
			replaceInvalid(value.Message())
		}
		return true
	})
}
