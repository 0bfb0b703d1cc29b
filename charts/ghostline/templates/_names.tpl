{{/* The name of the objects of this release. */}}
{{- define "ghostline.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride -}}
{{- else if contains "ghostline" .Release.Name -}}
{{- .Release.Name | trunc 54 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-ghostline" .Release.Name | trunc 54 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/*
What the operator's pods are selected by. The proxies let pods of this name ask their
admin ports, so it is the same for every release.
*/}}
{{- define "ghostline.selectorLabels" -}}
app.kubernetes.io/name: ghostline-operator
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{/* The labels of every object. */}}
{{- define "ghostline.labels" -}}
{{ include "ghostline.selectorLabels" . }}
app.kubernetes.io/component: operator
app.kubernetes.io/part-of: ghostline
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "ghostline.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- .Values.serviceAccount.name | default (include "ghostline.fullname" .) -}}
{{- else -}}
{{- .Values.serviceAccount.name | default "default" -}}
{{- end -}}
{{- end -}}

{{/* The namespace of the routes. */}}
{{- define "ghostline.watchNamespace" -}}
{{- .Values.watchNamespace | default .Release.Namespace -}}
{{- end -}}

{{/* An image, of a dict with field, the name of the value, and image and appVersion. */}}
{{- define "ghostline.image" -}}
{{- if eq .image.tag "latest" -}}
{{- fail (printf "%s.tag: latest is another image every day; name a release, or leave it empty for %s" .field .appVersion) -}}
{{- end -}}
{{- $name := .image.repository -}}
{{- if .image.registry -}}
{{- $name = printf "%s/%s" .image.registry .image.repository -}}
{{- end -}}
{{- if .image.digest -}}
{{- printf "%s@%s" $name .image.digest -}}
{{- else -}}
{{- printf "%s:%s" $name (.image.tag | default .appVersion) -}}
{{- end -}}
{{- end -}}
