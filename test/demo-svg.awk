# Draws the output of test/demo.sh as an animated terminal, line by line:
#
#   test/demo.sh | awk -f test/demo-svg.awk > docs/demo.svg
#
# It omits the source, which the README shows above the picture, and the next steps. Viewers without
# animations show all lines at once.

# add adds a line, and wraps it at the width of the terminal.
function add(text, class, pause) {
	at += pause
	do {
		lines++
		shown[lines] = substr(text, 1, columns)
		style[lines] = class
		second[lines] = at
		text = substr(text, columns + 1)
		pause = 0
	} while (text != "")
}

function escape(text) {
	gsub(/&/, "\\&amp;", text)
	gsub(/</, "\\&lt;", text)
	gsub(/>/, "\\&gt;", text)
	return text
}

BEGIN { columns = 104 }

/^==> how to go on/ { exit }
/^==> / || /^$/ { next }
/^\$ cat / { skip = 1; next }
/^\$ / {
	skip = 0
	if (lines) add("", "output", 0)
	add($0, "command", 1.5)
	next
}
!skip { add($0, "output", /^  [0-9:]+  /? 1 : 0.3) }

END {
	printf "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 880 %d\" font-size=\"13\">\n", lines * 19 + 28
	print "<title>A function is applied, compiles, serves and answers; its log and its metrics</title>"
	print "<style>"
	print "rect { fill: #161b22; stroke: #444c56 }"
	print "text { font-family: ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace; white-space: pre; animation: appear 1ms step-end both }"
	print ".command { fill: #79c0ff; font-weight: bold } .output { fill: #d6dde4 }"
	print "@keyframes appear { from { visibility: hidden } }"
	print "@media (prefers-reduced-motion: reduce) { text { animation: none } }"
	print "</style>"
	printf "<rect x=\".5\" y=\".5\" width=\"879\" height=\"%d\" rx=\"6\"/>\n", lines * 19 + 27
	for (i = 1; i <= lines; i++)
		printf "<text class=\"%s\" xml:space=\"preserve\" x=\"16\" y=\"%d\" style=\"animation-delay: %.1fs\">%s</text>\n", style[i], i * 19 + 14, second[i], escape(shown[i])
	print "</svg>"
}
