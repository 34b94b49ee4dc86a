package plane

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
)

// Put writes an object to etcd as JSON, bypassing the API server. The key is its path, such as
// /registry/goless.io/functions/NAMESPACE/NAME.
func (p *Plane) Put(ctx context.Context, key string, object any) error {
	value, err := json.Marshal(object)
	if err != nil {
		return err
	}
	return p.ask(ctx, "kv/put", map[string]any{"key": []byte(key), "value": value}, nil)
}

// Drop deletes an object from etcd.
func (p *Plane) Drop(ctx context.Context, key string) error {
	return p.ask(ctx, "kv/deleterange", map[string]any{"key": []byte(key)}, nil)
}

// Fill makes etcd behave as if its disk were full: it serves reads and rejects writes. Free
// reverts that.
func (p *Plane) Fill(ctx context.Context) error { return p.alarm(ctx, "ACTIVATE") }

// Free reverts Fill.
func (p *Plane) Free(ctx context.Context) error { return p.alarm(ctx, "DEACTIVATE") }

func (p *Plane) alarm(ctx context.Context, action string) error {
	var status struct {
		Header struct {
			Member string `json:"member_id"`
		}
	}
	if err := p.ask(ctx, "maintenance/status", map[string]any{}, &status); err != nil {
		return err
	}
	return p.ask(ctx, "maintenance/alarm", map[string]any{"action": action, "alarm": "NOSPACE", "memberID": status.Header.Member}, nil)
}

// Compact deletes all versions of objects in etcd except the latest ones.
func (p *Plane) Compact(ctx context.Context) error {
	var status struct{ Header struct{ Revision string } }
	if err := p.ask(ctx, "maintenance/status", map[string]any{}, &status); err != nil {
		return err
	}
	return p.ask(ctx, "kv/compaction", map[string]any{"revision": status.Header.Revision, "physical": true}, nil)
}

// ask calls the JSON gateway of etcd.
func (p *Plane) ask(ctx context.Context, method string, request, answer any) error {
	body, err := json.Marshal(request)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, p.etcd+"/v3/"+method, bytes.NewReader(body))
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer response.Body.Close() //nolint:errcheck // it was only read
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = errors.New(response.Status)
	}
	if err != nil {
		return fmt.Errorf("asking etcd for %s: %w: %s", method, err, text)
	}
	if answer == nil {
		return nil
	}
	return json.Unmarshal(text, answer)
}

// Save copies the state of the cluster. Etcd and the API server are unavailable meanwhile.
func (p *Plane) Save(ctx context.Context) error {
	p.APIServer.Kill()
	p.Etcd.Kill()
	if err := os.RemoveAll(p.path("saved")); err != nil {
		return err
	}
	if err := os.CopyFS(p.path("saved"), os.DirFS(p.path("etcd"))); err != nil {
		return err
	}
	return p.resume(ctx)
}

// Restore restores the state that Save has copied, and restarts all programs, as the
// documentation of Kubernetes requires after a disaster.
func (p *Plane) Restore(ctx context.Context) error {
	p.Manager.Kill()
	p.APIServer.Kill()
	p.Etcd.Kill()
	if err := os.RemoveAll(p.path("etcd")); err != nil {
		return err
	}
	if err := os.Rename(p.path("saved"), p.path("etcd")); err != nil {
		return err
	}
	if err := p.resume(ctx); err != nil {
		return err
	}
	return p.Manager.Start()
}

// resume starts etcd and the API server.
func (p *Plane) resume(ctx context.Context) error {
	if err := p.Etcd.Start(); err != nil {
		return err
	}
	if err := p.AwaitEtcd(ctx); err != nil {
		return err
	}
	if err := p.APIServer.Start(); err != nil {
		return err
	}
	return p.Await(ctx)
}
