package format

import (
	"encoding/json"
	"io"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
)

// The subset of SARIF 2.1.0 for diagnostics. SARIF libraries depend on a JSON schema validator.
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

// sarifFunction is the rule that errors violate: a source must be a valid Function.
const sarifFunction = "function"

// analyzer matches the name of the analyzer at the end of a warning.
var analyzer = regexp.MustCompile(`\((\w+)\)$`)

// sarifRuleOf returns the rule that a finding violates: an analyzer of go vet, or sarifFunction.
func sarifRuleOf(f Finding) string {
	if match := analyzer.FindStringSubmatch(f.Message); match != nil && f.Severity == Warning {
		return match[1]
	}
	return sarifFunction
}

func writeSARIF(w io.Writer, all []Finding) error {
	run := sarifRun{
		Tool: sarifTool{Driver: sarifDriver{
			Name:           "builder",
			InformationURI: "https://goless.io",
			Rules:          []sarifRule{{ID: sarifFunction}},
		}},
		Results: []sarifResult{},
	}
	for _, f := range all {
		rule := sarifRule{ID: sarifRuleOf(f)}
		if !slices.Contains(run.Tool.Driver.Rules, rule) {
			run.Tool.Driver.Rules = append(run.Tool.Driver.Rules, rule)
		}
		run.Results = append(run.Results, sarifResult{
			RuleID:  rule.ID,
			Level:   string(f.Severity),
			Message: sarifMessage{Text: f.Message},
			Locations: []sarifLocation{{Physical: sarifPhysical{
				Artifact: sarifArtifact{URI: (&url.URL{Path: filepath.ToSlash(f.File)}).String()},
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
