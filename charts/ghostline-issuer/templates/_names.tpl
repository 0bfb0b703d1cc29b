{{/* The name of the objects of this release. */}}
{{- define "issuer.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride -}}
{{- else if contains "issuer" .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-ghostline-issuer" .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "issuer.selectorLabels" -}}
app.kubernetes.io/name: ghostline-tokenissuer
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{/* The labels of every object. */}}
{{- define "issuer.labels" -}}
{{ include "issuer.selectorLabels" . }}
app.kubernetes.io/component: tokenissuer
app.kubernetes.io/part-of: ghostline
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "issuer.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- .Values.serviceAccount.name | default (include "issuer.fullname" .) -}}
{{- else -}}
{{- .Values.serviceAccount.name | default "default" -}}
{{- end -}}
{{- end -}}

{{- define "issuer.signingKeys" -}}
{{- .Values.signingKeys.secretName | default (printf "%s-signing-keys" (include "issuer.fullname" .)) -}}
{{- end -}}

{{/* The ConfigMap with the entitlements; empty if there are none. */}}
{{- define "issuer.entitlements" -}}
{{- if and .Values.entitlements.existingConfigMap .Values.entitlements.rules -}}
{{- fail "entitlements: there are both rules and existingConfigMap; leave one of them out" -}}
{{- end -}}
{{- if .Values.entitlements.existingConfigMap -}}
{{- .Values.entitlements.existingConfigMap -}}
{{- else if .Values.entitlements.rules -}}
{{- printf "%s-entitlements" (include "issuer.fullname" .) -}}
{{- end -}}
{{- end -}}

{{/* What the traffic port is called, and its number in pods. */}}
{{- define "issuer.portName" -}}
{{- ternary "https" "http" (not (empty .Values.tls.secretName)) -}}
{{- end -}}
{{- define "issuer.podPort" -}}
{{- ternary 8443 8080 (not (empty .Values.tls.secretName)) -}}
{{- end -}}
{{- define "issuer.servicePort" -}}
{{- .Values.service.port | default (ternary 443 80 (not (empty .Values.tls.secretName))) | int -}}
{{- end -}}

{{/* The host of config.issuer. */}}
{{- define "issuer.host" -}}
{{- (urlParse .Values.config.issuer).hostname -}}
{{- end -}}

{{/* What the issuer is started with: the values' config and what the chart adds to it. */}}
{{- define "issuer.config" -}}
{{- $config := deepCopy .Values.config -}}
{{- $_ := set $config "keys" (merge (dict "secret" (include "issuer.signingKeys" .)) ($config.keys | default dict)) -}}
{{- if include "issuer.entitlements" . -}}
{{- $_ := set $config "entitlements" (dict "file" (printf "/etc/ghostline/entitlements/%s" (ternary .Values.entitlements.key "entitlements.yaml" (not (empty .Values.entitlements.existingConfigMap))))) -}}
{{- end -}}
{{- toYaml $config -}}
{{- end -}}

{{- define "issuer.image" -}}
{{- if eq .Values.image.tag "latest" -}}
{{- fail (printf "image.tag: latest is another image every day; name a release, or leave it empty for %s" .Chart.AppVersion) -}}
{{- end -}}
{{- $name := .Values.image.repository -}}
{{- if .Values.image.registry -}}
{{- $name = printf "%s/%s" .Values.image.registry .Values.image.repository -}}
{{- end -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" $name .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" $name (.Values.image.tag | default .Chart.AppVersion) -}}
{{- end -}}
{{- end -}}
