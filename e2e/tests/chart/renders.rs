//! What the chart renders, kept as files: a reviewer sees every change of a right, a port or a label.

use std::path::{Path, PathBuf};

use lockstep_e2e::cluster::ApiServer;

use super::{chart, helm, template};

/// Everything that can be turned on, and every list with something in it.
const EVERYTHING: &str = r#"
image: {repository: registry.example/lockstep, tag: "1.2.3", pullPolicy: Always}
imagePullSecrets: [{name: registry}]
workerImage: registry.example/worker:1.2.3
replicas: 3
clusterId: production
controller:
  leaseDuration: 30s
  maxConcurrentReconciles: 16
  cleanupTimeout: 10m
  logFormat: text
  logLevel: debug
  extraArgs: [--metrics-per-partition=128]
  nodeSelector: {kubernetes.io/os: linux}
  tolerations: [{key: system, operator: Exists}]
  affinity: {nodeAffinity: {}}
  podAnnotations: {example.com/team: platform}
  podLabels: {example.com/tier: system}
  priorityClassName: system-cluster-critical
serviceAccount: {annotations: {example.com/role: lockstep}}
networkPolicy:
  enabled: true
  egress: [{ports: [{port: 4222}], to: [{namespaceSelector: {matchLabels: {name: nats}}}]}]
metrics:
  serviceMonitor: {enabled: true, interval: 15s, labels: {release: prometheus}}
  podMonitor: {enabled: true, interval: 15s, labels: {release: prometheus}}
  prometheusRule: {enabled: true, labels: {release: prometheus}}
  dashboard: {enabled: true}
"#;

/// Nothing that can be left out.
const MINIMAL: &str = r"
crds: {enabled: false}
replicas: 1
webhook: {enabled: false}
rbac: {create: false}
serviceAccount: {create: false, name: given}
scaling: {podDeletionCost: false}
podDisruptionBudget: {enabled: false}
";

/// Roles in place of cluster-wide rights.
const NAMESPACED: &str = r"
watchNamespaces: [shop, billing]
rbac: {connectionNamespaces: [nats]}
";

/// The files and the values that they are made with.
const RENDERS: [(&str, &str); 4] = [
    ("default", ""),
    ("everything", EVERYTHING),
    ("minimal", MINIMAL),
    ("namespaced", NAMESPACED),
];

fn golden(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/chart/golden");
    folder.join(format!("{name}.yaml"))
}

/// Single manifests, each from its first line on.
fn manifests(render: &str) -> Vec<&str> {
    let all = render.split("---\n").map(str::trim);
    all.filter(|text| !text.is_empty()).collect()
}

fn is_definition(manifest: &str) -> bool {
    manifest.contains("kind: CustomResourceDefinition\n")
}

/// Definitions are long and kept elsewhere, byte for byte: only their heads count here.
fn shortened(render: &str) -> String {
    let short = manifests(render).into_iter().map(|manifest| {
        let whole = if is_definition(manifest) {
            manifest.split("\nspec:").next().unwrap()
        } else {
            manifest
        };
        format!("---\n{whole}\n")
    });
    short.collect()
}

/// Where two texts part, for people.
fn difference(kept: &str, made: &str) -> String {
    let mut lines = kept.lines().zip(made.lines()).zip(1..);
    let Some(((kept, made), line)) = lines.find(|((kept, made), _)| kept != made) else {
        return "one ends before the other".to_owned();
    };
    format!("line {line}: kept {kept:?}, rendered {made:?}")
}

#[test]
fn renders_are_those_that_are_kept() {
    for (name, values) in RENDERS {
        let made = shortened(&template(values).unwrap());
        if std::env::var_os("BLESS").is_some() {
            std::fs::write(golden(name), &made).unwrap();
        }
        let kept = std::fs::read_to_string(golden(name)).unwrap_or_default();
        assert!(
            kept == made,
            "{name}.yaml: {}; if that is meant: BLESS=1 cargo test -p lockstep-e2e --test chart",
            difference(&kept, &made)
        );
    }
}

#[test]
fn two_renders_are_equal() {
    for (name, values) in RENDERS {
        let twice = [template(values).unwrap(), template(values).unwrap()];
        assert!(
            twice[0] == twice[1],
            "{name}: {}",
            difference(&twice[0], &twice[1])
        );
    }
}

#[test]
fn helm_has_nothing_against_the_chart() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("values.yaml");
    for (name, values) in RENDERS {
        std::fs::write(&file, values).unwrap();
        let (chart, file) = (chart().display().to_string(), file.display().to_string());
        let said = helm(&["lint", "--strict", &chart, "--values", &file]);
        let text = String::from_utf8(said.stdout).unwrap() + &String::from_utf8_lossy(&said.stderr);
        assert!(said.status.success(), "{name}: {text}");
        assert!(!text.contains("[WARNING]"), "{name}: {text}");
    }
}

#[test]
fn no_key_and_no_authority_is_in_a_render() {
    for (name, values) in RENDERS {
        let render = template(values).unwrap();
        let secrets = ["kind: Secret\n", "caBundle", "PRIVATE KEY", "BEGIN CERT"];
        let found: Vec<_> = secrets.iter().filter(|w| render.contains(**w)).collect();
        assert!(found.is_empty(), "{name} holds {found:?}");
    }
}

#[test]
fn definitions_are_rendered_whole_and_kept_when_the_chart_goes() {
    let keep = "  annotations:\n    helm.sh/resource-policy: keep\n";
    let definitions = |values: &str| {
        let render = template(values).unwrap();
        let all = manifests(&render).into_iter().filter(|m| is_definition(m));
        all.map(str::to_owned).collect::<Vec<_>>()
    };
    let kept = definitions("");
    assert_eq!(kept.len(), 3);
    for manifest in &kept {
        let (source, text) = manifest.split_once('\n').unwrap();
        let plural = text.split("\n    plural: ").nth(1).unwrap();
        let plural = plural.lines().next().unwrap();
        let file = chart().join(format!("files/crds/{plural}.yaml"));
        let ours = std::fs::read_to_string(&file).unwrap();
        assert!(text.contains(keep), "{source} is not kept");
        assert_eq!(text.replacen(keep, "", 1).trim(), ours.trim(), "{source}");
    }
    let dropped = definitions("crds: {keep: false}");
    assert_eq!(dropped.len(), 3);
    assert!(dropped.iter().all(|m| !m.contains(keep)));
    assert!(definitions(MINIMAL).is_empty());
}

#[tokio::test]
async fn an_api_server_knows_every_field_of_every_render() {
    let server = ApiServer::start().await.unwrap();
    for namespace in ["lockstep-system", "shop", "billing", "nats"] {
        let made = server.kubectl(&["create", "namespace", namespace]).await;
        assert_eq!(made.unwrap().code, Some(0));
    }
    let mut tried = 0;
    for (name, values) in RENDERS {
        let render = template(values).unwrap();
        // The kinds of Prometheus are not here; their fields are in the kept files to be read.
        let known = manifests(&render)
            .into_iter()
            .filter(|m| !m.contains("apiVersion: monitoring.coreos.com/v1\n"));
        let known: Vec<&str> = known.collect();
        tried += known.len();
        let file = server.folder().join("render.yaml");
        std::fs::write(&file, known.join("\n---\n")).unwrap();
        let file = file.display().to_string();
        let apply = [
            "apply",
            "--server-side",
            "--dry-run=server",
            "--validate=strict",
            "-f",
            &file,
        ];
        let said = server.kubectl(&apply).await.unwrap();
        assert_eq!(said.code, Some(0), "{name}: {}", said.stderr);
        assert!(!said.stderr.contains("Warning"), "{name}: {}", said.stderr);
    }
    assert!(tried > 50, "only {tried} objects were tried");
}
