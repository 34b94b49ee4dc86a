package main

import (
	"regexp"
	"slices"
)

// A document is one of SPDX, and a pkg is a package in it: objects of JSON with the fields
// that the format names.
type (
	document map[string]any
	pkg      map[string]any
)

// notInID is what an identifier cannot have.
var notInID = regexp.MustCompile(`[^a-zA-Z0-9.-]+`)

// module is the package of a Go module, or of a program, which has no version and no module.
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

// add adds a package to the document, and how another one is related to it. Each is added once.
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

// contained is the identifier of the program that the image of a document contains; empty
// where there is none.
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
