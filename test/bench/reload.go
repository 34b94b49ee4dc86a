package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

var servingAt = regexp.MustCompile(`serving at (http://\S+) `)

// measureReload measures the time from saving a function that builder run serves until its new
// version responds.
func measureReload(ctx context.Context, b *builds) error {
	file := filepath.Join(b.scratch, "reload.go")
	save := func(answer string) error {
		src := fmt.Sprintf("package p\n\nimport \"net/http\"\n\nfunc Handler(w http.ResponseWriter, r *http.Request) { w.Write([]byte(%q)) }\n", answer)
		return os.WriteFile(file, []byte(src), 0o644)
	}
	if err := save("first"); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, b.command, "run", "--port", "0", "--admin-port", "0", file)
	cmd.Env = b.session.environ()
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	defer cmd.Wait()                       //nolint:errcheck // it was interrupted
	defer cmd.Process.Signal(os.Interrupt) //nolint:errcheck // it may have ended
	url, err := findURL(stderr)
	if err != nil {
		return err
	}
	var samples []float64
	for i := range b.n + 1 {
		answer := fmt.Sprintf("version %d", i)
		started := time.Now()
		if err := save(answer); err != nil {
			return err
		}
		if err := awaitAnswer(ctx, url, answer); err != nil {
			return err
		}
		samples = append(samples, time.Since(started).Seconds())
	}
	b.results.add("run.reload", median(samples[1:]), "s", b.n)
	return nil
}

// findURL returns the URL of the function, and discards the output after it in the background.
func findURL(stderr io.Reader) (string, error) {
	var said strings.Builder
	for lines := bufio.NewScanner(stderr); lines.Scan(); {
		said.WriteString(lines.Text() + "\n")
		if match := servingAt.FindStringSubmatch(lines.Text()); match != nil {
			go io.Copy(io.Discard, stderr) //nolint:errcheck // it ends with the process
			return match[1], nil
		}
	}
	return "", fmt.Errorf("builder run did not serve:\n%s", said.String())
}

// awaitAnswer sends requests until the response is the wanted one.
func awaitAnswer(ctx context.Context, url, want string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return err
		}
		body, err := io.ReadAll(response.Body)
		response.Body.Close() //nolint:errcheck // it was read
		if err != nil {
			return err
		}
		if string(body) == want {
			return nil
		}
		time.Sleep(time.Millisecond)
	}
}
