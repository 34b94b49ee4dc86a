package pages

import (
	"bytes"
	"html/template"
	"io"
	web "net/http"
	"sort"
)

const layout = `<!doctype html>
<title>{{.Title}}</title>
<ul>
{{range .Rows}}<li>{{.Key}}: {{.Value | printf "%q"}}</li>
{{else}}<li>nothing</li>
{{end}}</ul>
`

var page = template.Must(template.New("page").Funcs(template.FuncMap{
	"shout": func(s string) string { return s + "!" },
}).Parse(layout))

type row struct {
	Key, Value string
}

type view struct {
	Title string
	Rows  []row
}

func newView(title string, values map[string][]string) view {
	v := view{Title: title}
	for key, list := range values {
		for _, value := range list {
			v.Rows = append(v.Rows, row{key, value})
		}
	}
	sort.Slice(v.Rows, func(i, j int) bool {
		if v.Rows[i].Key != v.Rows[j].Key {
			return v.Rows[i].Key < v.Rows[j].Key
		}
		return v.Rows[i].Value < v.Rows[j].Value
	})
	return v
}

func render(w io.Writer, v view) error {
	var b bytes.Buffer
	if err := page.Execute(&b, v); err != nil {
		return err
	}
	_, err := b.WriteTo(w)
	return err
}

func Handler(w web.ResponseWriter, r *web.Request) {
	if err := r.ParseForm(); err != nil {
		web.Error(w, err.Error(), web.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	if err := render(w, newView(r.URL.Path, r.Form)); err != nil {
		web.Error(w, err.Error(), web.StatusInternalServerError)
	}
}
