{{- /* An image of the values, where there is a mirror from there. */ -}}
{{- define "goless.image" -}}
{{- $image := index . 1 -}}
{{- with (index . 0).Values.images.mirror -}}
{{- printf "%s/%s" (trimSuffix "/" .) (base $image) -}}
{{- else -}}
{{- $image -}}
{{- end -}}
{{- end -}}

{{- /* Not empty where kubectl apply is answered by the webhook, which is one of the whole cluster. */ -}}
{{- define "goless.admission" -}}
{{- if and .Values.admission.enabled (not .Values.config.namespaces) }}true{{ end -}}
{{- end -}}
