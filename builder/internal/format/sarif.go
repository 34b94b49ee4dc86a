package format

import (
	"encoding/json"
	"io"
	"path/filepath"
)

// The part of SARIF 2.1.0 that diagnostics need. Libraries for it bring a
// validator of JSON schemas along.
type (
	sarifLog struct {
		Schema  string     `json:"$schema"`
		Version string     `json:"version"`
		Runs    []sarifRun `json:"runs"`
	}
	sarifRun struct {
		Tool    sarifTool     `json:"tool"`
		Results []sarifResult `json:"results"`
	}
	sarifTool struct {
		Driver sarifDriver `json:"driver"`
	}
	sarifDriver struct {
		Name           string      `json:"name"`
		InformationURI string      `json:"informationUri"`
		Rules          []sarifRule `json:"rules"`
	}
	sarifRule struct {
		ID string `json:"id"`
	}
	sarifResult struct {
		RuleID    string          `json:"ruleId"`
		Level     string          `json:"level"`
		Message   sarifMessage    `json:"message"`
		Locations []sarifLocation `json:"locations"`
	}
	sarifMessage struct {
		Text string `json:"text"`
	}
	sarifLocation struct {
		Physical sarifPhysical `json:"physicalLocation"`
	}
	sarifPhysical struct {
		Artifact sarifArtifact `json:"artifactLocation"`
		Region   sarifRegion   `json:"region"`
	}
	sarifArtifact struct {
		URI string `json:"uri"`
	}
	sarifRegion struct {
		StartLine   int `json:"startLine"`
		StartColumn int `json:"startColumn,omitempty"`
	}
)

// sarifRuleID is the one rule there is: a source must be a Function.
const sarifRuleID = "function"

func writeSARIF(w io.Writer, all []Finding) error {
	run := sarifRun{
		Tool: sarifTool{Driver: sarifDriver{
			Name:           "builder",
			InformationURI: "https://goless.io",
			Rules:          []sarifRule{{ID: sarifRuleID}},
		}},
		Results: []sarifResult{},
	}
	for _, f := range all {
		run.Results = append(run.Results, sarifResult{
			RuleID:  sarifRuleID,
			Level:   string(f.Severity),
			Message: sarifMessage{Text: f.Message},
			Locations: []sarifLocation{{Physical: sarifPhysical{
				Artifact: sarifArtifact{URI: filepath.ToSlash(f.File)},
				Region:   sarifRegion{StartLine: f.Line, StartColumn: f.Column},
			}}},
		})
	}
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(sarifLog{
		Schema:  "https://json.schemastore.org/sarif-2.1.0.json",
		Version: "2.1.0",
		Runs:    []sarifRun{run},
	})
}
