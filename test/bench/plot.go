package main

import (
	"fmt"
	"os"
	"strings"
	"time"
)

// The size of the plot and of its margins, in pixels.
const (
	plotWidth, plotHeight = 640, 220
	plotLeft, plotBottom  = 40, 30
)

// writePlot draws the rate of requests of the stages, and the replicas of both functions, as an SVG
// file. It writes nothing if the name is empty.
func writePlot(file string, found map[string][]size, length time.Duration) error {
	if file == "" {
		return nil
	}
	const mostReplicas, mostRate = 10, 250
	x := func(at time.Duration) float64 {
		return plotLeft + (plotWidth-2*plotLeft)*at.Seconds()/length.Seconds()
	}
	y := func(value, most float64) float64 {
		return plotHeight - plotBottom - (plotHeight-2*plotBottom)*value/most
	}
	line := func(color, dash string, points []string) string {
		return fmt.Sprintf("<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"2\" stroke-dasharray=\"%s\" points=\"%s\"/>\n", color, dash, strings.Join(points, " "))
	}
	var out strings.Builder
	fmt.Fprintf(&out, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" font-family=\"sans-serif\" font-size=\"11\">\n", plotWidth, plotHeight)
	fmt.Fprintf(&out, "<rect width=\"%d\" height=\"%d\" fill=\"white\"/>\n", plotWidth, plotHeight)
	var from time.Duration
	var rates []string
	for _, stage := range stages {
		level := y(float64(stage.rate), mostRate)
		rates = append(rates, fmt.Sprintf("%.1f,%.1f", x(from), level), fmt.Sprintf("%.1f,%.1f", x(from+stage.duration), level))
		fmt.Fprintf(&out, "<text x=\"%.1f\" y=\"%.1f\" fill=\"#777\">%d/s</text>\n", x(from)+4, level-4, stage.rate)
		from += stage.duration
	}
	out.WriteString(line("#bbb", "4 3", rates))
	for i, name := range []string{byRequests, byCPU} {
		color := []string{"#00758f", "#c0392b"}[i]
		var points []string
		for n, s := range found[name] {
			until := length
			if n+1 < len(found[name]) {
				until = found[name][n+1].after
			}
			level := y(float64(s.n), mostReplicas)
			points = append(points, fmt.Sprintf("%.1f,%.1f", x(s.after), level), fmt.Sprintf("%.1f,%.1f", x(min(until, length)), level))
		}
		out.WriteString(line(color, "", points))
		fmt.Fprintf(&out, "<text x=\"%d\" y=\"%d\" fill=\"%s\">replicas, scaled %s</text>\n", plotLeft+4, 14+14*i, color, strings.ReplaceAll(name, "-", " "))
	}
	for _, n := range []int{0, 2, 4, 6, 8, 10} {
		fmt.Fprintf(&out, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%d</text>\n", plotLeft-6, y(float64(n), mostReplicas)+4, n)
	}
	for at := time.Duration(0); at <= length; at += 30 * time.Second {
		fmt.Fprintf(&out, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%.0f s</text>\n", x(at), plotHeight-10, at.Seconds())
	}
	out.WriteString("</svg>\n")
	return os.WriteFile(file, []byte(out.String()), 0o644)
}
