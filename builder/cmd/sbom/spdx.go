package main

import (
	"regexp"
	"slices"
)

// document is an SPDX document, and pkg is a package in it: JSON objects with the fields of the
// format.
type (
	document map[string]any
	pkg      map[string]any
)

// notInID matches characters that are not allowed in identifiers.
var notInID = regexp.MustCompile(`[^a-zA-Z0-9.-]+`)

// module returns the package of a Go module, or of a program if version is empty.
func module(path, version string) pkg {
	id := "SPDXRef-Goless-" + notInID.ReplaceAllString(path, "-")
	p := pkg{
		"name":             path,
		"versionInfo":      version,
		"downloadLocation": "NOASSERTION",
		"filesAnalyzed":    false,
		"licenseConcluded": "NOASSERTION",
		"licenseDeclared":  "NOASSERTION",
		"copyrightText":    "NOASSERTION",
	}
	if version != "" {
		id += "-" + notInID.ReplaceAllString(version, "-")
		p["externalRefs"] = []any{map[string]any{
			"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": "pkg:golang/" + path + "@" + version,
		}}
	}
	p["SPDXID"] = id
	return p
}

// add adds a package to the document and relates element to it, unless the document contains the
// package.
func (d document) add(element, relationship string, p pkg) {
	packages, _ := d["packages"].([]any)
	if slices.ContainsFunc(packages, func(other any) bool { o, ok := other.(pkg); return ok && o["SPDXID"] == p["SPDXID"] }) {
		return
	}
	d["packages"] = append(packages, p)
	relationships, _ := d["relationships"].([]any)
	d["relationships"] = append(relationships, map[string]any{
		"spdxElementId": element, "relationshipType": relationship, "relatedSpdxElement": p["SPDXID"],
	})
}

// contained returns the identifier of the program in the image of a document, or the empty string
// if there is none.
func (d document) contained() string {
	relationships, _ := d["relationships"].([]any)
	for _, r := range relationships {
		if r, ok := r.(map[string]any); ok && r["relationshipType"] == "CONTAINS" {
			id, _ := r["relatedSpdxElement"].(string)
			return id
		}
	}
	return ""
}
