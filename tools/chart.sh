#!/usr/bin/env bash
# Packages the Helm chart as VERSION, such as 0.1.0, into the directory OUT. Each IMPORTPATH=REFERENCE is
# an image; an image is required for each ko:// reference of the values. Equal inputs create equal bytes. make
# chart and make release run it.
#
#   VERSION=0.1.0 tools/chart.sh OUT IMPORTPATH=REFERENCE...
set -euo pipefail
cd "$(dirname "$0")/.."

out=$1
shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -RL deploy/chart "$work/goless"
for image; do
  grep -q "ko://${image%%=*}\$" "$work/goless/values.yaml" || { echo "tools/chart.sh: no value is the image ${image%%=*}" >&2; exit 1; }
  replace+=(-e "s|ko://${image%%=*}\$|${image#*=}|")
done
sed -i.orig "${replace[@]}" "$work/goless/values.yaml"
sed -i.orig "s/0\.0\.0/$VERSION/" "$work/goless/Chart.yaml"
rm "$work"/goless/*.orig
if grep -n ko:// "$work/goless/values.yaml"; then
  echo "tools/chart.sh: no image is given for the values above" >&2
  exit 1
fi
find "$work/goless" -exec touch -d 1980-01-01T00:00:00Z {} + # helm package stores the modification times
helm package "$work/goless" -d "$out" >&2
