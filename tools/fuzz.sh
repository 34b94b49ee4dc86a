#!/usr/bin/env bash
# Runs each fuzz target for TIME, such as 30s.
set -euo pipefail
cd "$(dirname "$0")/.."

git grep -l '^func Fuzz' -- '*_test.go' | while read -r file; do
  for target in $(sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\).*/\1/p' "$file"); do
    go test -run='^$' -fuzz="^$target\$" -fuzztime="$1" "./${file%/*}"
  done
done
