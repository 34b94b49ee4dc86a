package plan

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/desired"
)

// record plans the record of the version in the planned Deployment. The record of the latest spec has a
// higher number than all others: if a Function returns to an earlier version, its record gets a new
// number, as with the ReplicaSets of a Deployment. What is not applied yet, waits for the first build, or
// was changed by another client is not a version.
func (p *planner) record(fn *v1beta1.Function) {
	foreign := p.seen.Deployment.UID != "" && p.seen.OwnedFields == nil
	if p.AwaitsBuild || p.DeploymentDelay > 0 || foreign || !desired.IsIntact(p.Deployment) {
		return
	}
	p.RecordName = desired.RecordName(p.Deployment)
	p.IsLatest = p.seen.Verdict.Source == nil && p.Deployment.Labels[desired.SpecHashLabel] == p.specHash
	number := int64(1)
	for _, record := range p.seen.Records {
		if record.Name != p.RecordName {
			number = max(number, record.Revision+1)
		}
	}
	i := slices.IndexFunc(p.seen.Records, func(r appsv1.ControllerRevision) bool { return r.Name == p.RecordName })
	switch {
	case i < 0:
		version := fn
		if former := p.seen.Revision(fn, desired.RevisionIn(p.Deployment)); former != nil { // the latest source has not been built or tested, or was rolled back
			version = former
		}
		p.Record, p.RecordData = desired.Record(version, p.settings, p.Deployment, number)
		if of := desired.RecordOfSpec(p.Deployment, p.seen.Records); of >= 0 && p.RecordData.Spec == nil { // the template of a former spec was repaired
			p.RecordOfSpec = p.seen.Records[of].Name
			desired.SetRecordedSpec(p.Record, desired.RecordedSpec(&p.seen.Records[of]))
		}
	case p.IsLatest && p.seen.Records[i].Revision < number:
		p.RecordNumber = number
	}
}

// unneededRecords returns the records to delete, and those of former versions that are kept. The newest
// record of each spec is kept, for as many specs as the Function asks for. The records of the current and
// the planned Deployment, that of the version that a verification may restore, and the newest of each
// template whose pods still run, are also kept. While the latest spec is not in the planned Deployment, all
// are kept: after a restart of the operator, one of them may be that of the latest spec, whose build is not
// known yet.
func (p *planner) unneededRecords(fn *v1beta1.Function) (former, unneeded []appsv1.ControllerRevision) {
	if !p.IsLatest {
		return p.seen.Records, nil
	}
	inUse := map[string]bool{desired.RecordNameOf(p.seen.Deployment): true, p.RecordName: true}
	if previous := desired.VerificationIn(p.Deployment).Previous; previous != nil {
		inUse[previous.Record] = true
	}
	running := map[string]bool{}
	for _, set := range p.seen.ReplicaSets {
		if set.Status.Replicas > 0 {
			running[desired.TemplateOf(&set)] = true
		}
	}
	for _, record := range p.seen.Records {
		if inUse[record.Name] {
			delete(running, desired.TemplateOf(&record))
		}
	}
	specs := map[string]bool{}
	for _, record := range p.seen.Records {
		spec, template := desired.RecordedSpec(&record), desired.TemplateOf(&record)
		switch {
		case inUse[record.Name], running[template]:
			delete(running, template)
		case specs[spec], len(former) >= fn.HistoryLimit():
			unneeded = append(unneeded, record)
			continue
		default:
			former = append(former, record)
		}
		specs[spec] = true
	}
	return former, unneeded
}
