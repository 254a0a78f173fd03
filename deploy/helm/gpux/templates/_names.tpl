{{- define "gpux.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 63 | trimSuffix "-" }}{{ else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 63 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "gpux.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "gpux.labels" -}}
{{ include "gpux.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "gpux.serviceAccount" -}}
{{- .Values.serviceAccount.name | default (ternary (include "gpux.name" .) "default" .Values.serviceAccount.create) }}
{{- end }}

{{- define "gpux.image" -}}
{{- if .Values.image.digest }}{{ printf "%s@%s" .Values.image.repository .Values.image.digest }}{{ else }}{{ printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) }}{{ end }}
{{- end }}

{{- /* The registries of the models must have a policy: the longest name that a reference begins with decides, as in gpux. */ -}}
{{- define "gpux.requireTrust" -}}
{{- if not .Values.trust.allowUnsigned }}
{{- range .Values.models }}
{{- $reference := .reference }}
{{- $found := dict "key" "" }}
{{- range $place, $key := $.Values.trust.policy }}
{{- if or (hasPrefix (printf "%s/" $place) $reference) (hasPrefix (printf "%s@" $place) $reference) (hasPrefix (printf "%s:" $place) $reference) }}{{ $_ := set $found "key" $key }}{{ end }}
{{- end }}
{{- if not $found.key }}{{ fail (printf "trust.policy has no key for %s; set it, or trust.allowUnsigned" $reference) }}{{ end }}
{{- end }}
{{- end }}
{{- range $place, $key := .Values.trust.policy }}
{{- if not (hasKey $.Values.trust.keys $key) }}{{ fail (printf "trust.policy names the key %s of %s, which trust.keys does not have" $key $place) }}{{ end }}
{{- end }}
{{- end }}

{{- define "gpux.requireKeys" -}}
{{- with .Values.apiKeys }}
{{- if not (or .secret .admin .allowWithoutKeys) }}{{ fail "apiKeys.secret is not set: whoever reaches the port could use the models and unload them; set it, apiKeys.admin, or apiKeys.allowWithoutKeys" }}{{ end }}
{{- if and .allowWithoutKeys (or .secret .admin) }}{{ fail "apiKeys.allowWithoutKeys is for a server without keys, and apiKeys names a Secret" }}{{ end }}
{{- end }}
{{- end }}

{{- define "gpux.requireWorkable" -}}
{{- $serve := .Values.serve }}
{{- if and $serve.grpc.enabled (eq (int $serve.http.port) (int $serve.grpc.port)) }}{{ fail (printf "serve.http.port and serve.grpc.port are both %d: two servers cannot listen on one port" (int $serve.http.port)) }}{{ end }}
{{- $zero := list "0" "0%" }}
{{- if and (has (toString .Values.rollout.maxSurge) $zero) (has (toString .Values.rollout.maxUnavailable) $zero) }}{{ fail "rollout.maxSurge and rollout.maxUnavailable are both 0: no pod could be replaced" }}{{ end }}
{{- with .Values.autoscaling }}
{{- if and (eq .kind "hpa") (eq (int .minReplicas) 0) }}{{ fail "autoscaling.minReplicas is 0, which kind hpa does not have: 1 or more is accepted; keda scales to 0 with a trigger of autoscaling.triggers" }}{{ end }}
{{- end }}
{{- end }}

{{- define "gpux.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{- define "gpux.commonMounts" -}}
- name: store
  mountPath: /var/lib/gpux
- name: temporary
  mountPath: /tmp
- name: trust
  mountPath: /var/lib/gpux/trust.yml
  subPath: trust.yml
  readOnly: true
- name: trust
  mountPath: /etc/gpux/trust
  readOnly: true
{{- end }}
