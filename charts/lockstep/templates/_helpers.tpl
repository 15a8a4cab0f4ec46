{{- define "lockstep.name" -}}
{{- if contains "lockstep" .Release.Name }}{{ .Release.Name | trunc 52 | trimSuffix "-" }}
{{- else }}{{ printf "%s-lockstep" (.Release.Name | trunc 43 | trimSuffix "-") }}{{ end }}
{{- end }}

{{- define "lockstep.labels" -}}
{{ include "lockstep.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "lockstep.selector" -}}
app.kubernetes.io/name: lockstep
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: controller
{{- end }}

{{- define "lockstep.serviceAccount" -}}
{{- .Values.serviceAccount.name | default (include "lockstep.name" .) }}
{{- end }}

{{- define "lockstep.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- /* What the controller needs of the objects that it looks after. */}}
{{- define "lockstep.rules" -}}
- apiGroups: [lockstep.dev]
  resources: [consumergroups, natsconnections, offsetresets]
  verbs: [get, list, watch, patch]
- apiGroups: [lockstep.dev]
  resources: [consumergroups/status, natsconnections/status, offsetresets/status]
  verbs: [patch]
- apiGroups: [""]
  resources: [pods]
  verbs: [list, watch{{ if .Values.scaling.podDeletionCost }}, patch{{ end }}]
- apiGroups: [apps]
  resources: [deployments, statefulsets]
  verbs: [get]
- apiGroups: [apps]
  resources: [deployments/scale, statefulsets/scale]
  verbs: [patch]
- apiGroups: [autoscaling]
  resources: [horizontalpodautoscalers]
  verbs: [list]
- apiGroups: [keda.sh]
  resources: [scaledobjects]
  verbs: [list]
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create, patch]
{{- end }}

{{- define "lockstep.secretRules" -}}
- apiGroups: [""]
  resources: [secrets]
  verbs: [get]
{{- end }}
