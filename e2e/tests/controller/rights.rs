//! The controller with exactly the rights, and the arguments, that the chart renders: it asks for
//! nothing that it may not have, and where it has Roles, it looks at no other namespace.

use std::collections::BTreeSet;
use std::path::Path;

use lockstep_e2e::children;
use lockstep_e2e::cluster::{Asked, helm};
use lockstep_e2e::until;
use serde_json::{Value, json};

use crate::scaling::{Member, workload};
use crate::stage::{SOON, Stage, group, repository};

const SYSTEM: &str = "lockstep-system";

/// Rights that the life below has no occasion for, or not always.
const IN_OTHER_LIVES: [&str; 9] = [
    // StatefulSets are scaled as Deployments are.
    "get apps/statefulsets",
    "patch apps/statefulsets/scale",
    // The webhook asks for what its cache does not have.
    "get lockstep.dev/consumergroups",
    "get lockstep.dev/natsconnections",
    "get lockstep.dev/offsetresets",
    "patch lockstep.dev/offsetresets",
    // A pod ends, and its node is asked whether that is to be believed.
    "get nodes",
    // The same Event again.
    "patch events.k8s.io/events",
    // The certificate is rotated.
    "update secrets",
];

impl Stage {
    /// The chart with these values, and what it installs for the controller.
    async fn install(&self, values: &str) {
        let chart = repository().join("charts/lockstep").display().to_string();
        let mut arguments = vec!["upgrade", "--install", "lockstep", chart.as_str()];
        arguments.extend(["--namespace", SYSTEM, "--create-namespace"]);
        // The definitions are there; short terms, and every step in the log.
        arguments.extend(["--set", "crds.enabled=false,controller.leaseDuration=3s"]);
        arguments.extend(["--set", "controller.logLevel=debug", "--set", values]);
        let done = helm(&self.api.kubeconfig(), self.api.folder(), &arguments).await;
        let done = done.unwrap();
        assert_eq!(done.code, Some(0), "{}", done.stderr);
    }

    /// The container of the installed Deployment as a process beside the API server, under its
    /// `ServiceAccount`. Only addresses differ: there is no network of pods here.
    async fn installed_controller(&mut self) {
        let ask = ["get", "deployment", "lockstep", "-n", SYSTEM, "-o", "json"];
        let deployment: Value = serde_json::from_str(&self.kubectl(&ask).await).unwrap();
        let container = &deployment["spec"]["template"]["spec"]["containers"][0];
        let rendered = container["args"].as_array().unwrap();
        let mut arguments: Vec<String> = rendered
            .iter()
            .map(|argument| argument.as_str().unwrap())
            .map(|argument| argument.replace("$(POD_NAMESPACE)", SYSTEM))
            .map(|argument| argument.replace("$(POD_NAME)", "c1"))
            .collect();
        let port = free_port();
        for argument in &mut arguments {
            let (flag, _) = argument.split_once('=').unwrap_or((argument, ""));
            let here = match flag {
                "--http-addr" => "--http-addr=127.0.0.1:0".to_owned(),
                "--webhook-addr" => format!("--webhook-addr=127.0.0.1:{port}"),
                "--webhook-service" => "--webhook-host=127.0.0.1".to_owned(),
                _ => continue,
            };
            *argument = here;
        }
        let client_config =
            json!({"url": format!("https://127.0.0.1:{port}/inject"), "service": null});
        let patch =
            json!({"webhooks": [{"name": "injector.lockstep.dev", "clientConfig": client_config}]});
        let patch = patch.to_string();
        let webhook = "mutatingwebhookconfiguration/lockstep-injector";
        self.kubectl(&["patch", webhook, "--patch", &patch]).await;
        let account = self.api.kubeconfig_of(SYSTEM, "lockstep").await.unwrap();
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        self.controller_as("c1", &account, &arguments);
    }

    fn asked(&self) -> Vec<Asked> {
        self.api.asked_by(SYSTEM, "lockstep").unwrap()
    }

    /// Nothing was refused to the controller, as the API server and as it itself have it.
    fn nothing_was_forbidden(&self) {
        let asked = self.asked();
        assert!(asked.len() > 50, "the audit log has {} lines", asked.len());
        let refused: Vec<_> = asked.iter().filter(|asked| asked.code == 403).collect();
        assert!(refused.is_empty(), "{refused:#?}");
        for controller in &self.controllers {
            let log = std::fs::read_to_string(controller.output()).unwrap();
            assert!(log.lines().count() > 10, "{log}");
            let words: Vec<_> = log.lines().filter(|line| forbidden(line)).collect();
            assert!(words.is_empty(), "{}", words.join("\n"));
        }
    }

    fn has_asked(&self, wanted: &[&str]) {
        let asked = self.asked();
        let asked: BTreeSet<String> = asked.into_iter().map(|asked| asked.request).collect();
        let missing: Vec<_> = wanted
            .iter()
            .filter(|wanted| !asked.iter().any(|asked| asked.starts_with(**wanted)))
            .collect();
        assert!(
            missing.is_empty(),
            "never asked: {missing:#?}\nof {asked:#?}"
        );
    }

    /// Rights that a role gives, in the words of [`Asked::right`].
    async fn given(&self, role: &[&str]) -> BTreeSet<String> {
        let ask = [&["get", "-o", "json"], role].concat();
        let role: Value = serde_json::from_str(&self.kubectl(&ask).await).unwrap();
        let texts = |list: &Value| -> Vec<String> {
            let texts = list.as_array().into_iter().flatten();
            texts.map(|t| t.as_str().unwrap().to_owned()).collect()
        };
        let mut given = BTreeSet::new();
        for rule in role["rules"].as_array().unwrap() {
            for (group, resource) in texts(&rule["apiGroups"]).iter().flat_map(|group| {
                texts(&rule["resources"])
                    .into_iter()
                    .map(move |r| (group, r))
            }) {
                let slash = if group.is_empty() { "" } else { "/" };
                let verbs = texts(&rule["verbs"]).into_iter();
                given.extend(verbs.map(|verb| format!("{verb} {group}{slash}{resource}")));
            }
        }
        given
    }

    /// No right is given that a controller does not use.
    async fn nothing_is_given_in_vain(&self) {
        let mut given = self.given(&["clusterrole", "lockstep"]).await;
        given.extend(self.given(&["role", "lockstep", "-n", SYSTEM]).await);
        assert!(given.len() > 20, "{given:?}");
        let used: BTreeSet<_> = self.asked().into_iter().map(|asked| asked.right).collect();
        let rest: Vec<_> = given
            .difference(&used)
            .filter(|right| !IN_OTHER_LIVES.contains(&right.as_str()))
            .collect();
        assert!(rest.is_empty(), "given and not used: {rest:?}");
    }

    async fn gone(&self, kind: &str, name: &str) {
        let found = until(format!("end of {kind} {name}"), SOON, async || {
            match self.get(kind, name).await {
                None => Ok(()),
                Some(object) => Err(object.to_string()),
            }
        });
        found
            .await
            .unwrap_or_else(|late| panic!("{late}\n{}", self.logs()));
    }
}

fn forbidden(line: &str) -> bool {
    line.to_lowercase().contains("forbidden")
}

fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

/// A connection that reads a Secret.
fn guarded(namespace: &str, url: &str) -> String {
    format!(
        "apiVersion: v1\n\
         kind: Secret\n\
         metadata: {{name: nats, namespace: {namespace}}}\n\
         stringData: {{username: anybody, password: secret}}\n\
         ---\n\
         apiVersion: lockstep.dev/v1alpha1\n\
         kind: NatsConnection\n\
         metadata: {{name: default, namespace: {namespace}}}\n\
         spec: {{servers: [\"{url}\"], auth: {{userPassword: {{name: nats}}}}, workerSecretName: nats}}\n"
    )
}

/// Created, injected into, scaled up and down by its target, and deleted with all that it made.
#[tokio::test]
async fn a_whole_life_needs_no_right_that_the_chart_does_not_give() {
    let mut stage = Stage::without_controller().await;
    stage.install("rbac.create=true").await;
    stage.api.start_workloads().await.unwrap();
    stage.installed_controller().await;
    stage.apply(&guarded("default", &stage.nats.url())).await;
    let spec = "  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: app}\n  \
                deletionPolicy: Delete\n";
    stage.apply(&group("orders", spec)).await;
    stage.ready("orders", "NoMembers").await;
    // Its certificate is in place, and pods get their worker.
    stage
        .apply(&workload("Deployment", "app", "orders", 1))
        .await;
    let pods = stage.has_pods("app", 1).await;
    let pod = stage.get("pod", &pods[0]).await.unwrap();
    assert_eq!(pod["spec"]["initContainers"][0]["name"], "lockstep-worker");

    stage.scale("cg/orders", 3).await;
    stage.number(("deploy", "app"), "/spec/replicas", 3).await;
    let pods = stage.has_pods("app", 3).await;
    let ids: Vec<&str> = pods.iter().map(String::as_str).collect();
    let members: Vec<Member> = ids.iter().map(|id| stage.member(id, &[])).collect();
    stage.all_owned_by(&ids).await;
    stage.scale("cg/orders", 1).await;
    stage.number(("deploy", "app"), "/spec/replicas", 1).await;

    let reset = "apiVersion: lockstep.dev/v1alpha1\nkind: OffsetReset\nmetadata: {name: again}\n\
                 spec: {groupRef: {name: orders}, to: {policy: Earliest}}\n";
    stage.apply(reset).await;
    stage
        .kubectl(&[
            "wait",
            "ofr/again",
            "--for=jsonpath={.status.observedGeneration}=1",
            "--timeout=60s",
        ])
        .await;
    drop(members);
    stage
        .kubectl(&["delete", "cg", "orders", "--wait=false"])
        .await;
    stage.gone("cg", "orders").await;
    assert!(stage.stream("KV_lockstep_default_orders").await.is_none());
    stage.kubectl(&["delete", "nconn", "default"]).await;
    stage.nothing_was_forbidden();
    stage.nothing_is_given_in_vain().await;
    // It went well because it was allowed, not because it was left out.
    stage.has_asked(&[
        "get /api/v1/namespaces/default/secrets/nats",
        "patch /api/v1/namespaces/default/pods/app-",
        "patch /apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/",
        "update /apis/coordination.k8s.io/v1/namespaces/lockstep-system/leases/lockstep",
        "create /api/v1/namespaces/lockstep-system/secrets",
        "create /apis/events.k8s.io/v1/namespaces/default/events",
        "patch /apis/apps/v1/namespaces/default/deployments/app/scale",
        "patch /apis/lockstep.dev/v1alpha1/namespaces/default/consumergroups/orders/status",
        "list /apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers",
    ]);
}

#[tokio::test]
async fn with_roles_it_looks_after_the_named_namespaces_and_at_no_other() {
    let mut stage = Stage::without_controller().await;
    for namespace in ["shop", "other", "secrets"] {
        stage.kubectl(&["create", "namespace", namespace]).await;
    }
    // The connection stands in a namespace of its own and grants itself to the shop.
    let values = "watchNamespaces={shop,secrets},rbac.connectionNamespaces={secrets}";
    stage.install(values).await;
    let grant = "allowedNamespaces: {matchLabels: {kubernetes.io/metadata.name: shop}}, servers:";
    let granted = guarded("secrets", &stage.nats.url()).replace("servers:", grant);
    stage.apply(&granted).await;
    stage.apply(&guarded("other", &stage.nats.url())).await;
    let of = |namespace: &str, connection: &str| {
        let name = format!("metadata: {{name: orders, namespace: {namespace}}}");
        let spec = format!("spec:\n  connectionRef: {{{connection}}}\n");
        group("orders", "")
            .replace("metadata: {name: orders}", &name)
            .replace("spec:\n", &spec)
            .replace("ORDERS", &namespace.to_uppercase())
            .replace("orders.*", &format!("{namespace}.*"))
    };
    stage
        .apply(&of("shop", "name: default, namespace: secrets"))
        .await;
    stage.apply(&of("other", "name: default")).await;
    stage.installed_controller().await;
    let wait = ["wait", "cg/orders", "-n", "shop", "--timeout=60s"];
    stage
        .kubectl(&[&wait[..], &["--for=condition=Ready"]].concat())
        .await;
    assert!(stage.stream("SHOP").await.is_some());
    // An order from here on would show that the other one had been seen before.
    stage
        .kubectl(&["annotate", "cg/orders", "-n", "other", "seen=no"])
        .await;
    stage
        .kubectl(&["delete", "cg", "orders", "-n", "shop"])
        .await;
    let ask = ["get", "cg", "orders", "-n", "other", "-o", "json"];
    let other: Value = serde_json::from_str(&stage.kubectl(&ask).await).unwrap();
    assert_eq!(other["status"], Value::Null, "{other}");
    assert!(stage.stream("OTHER").await.is_none());
    let strange: Vec<_> = stage
        .asked()
        .into_iter()
        .filter(|asked| !["", "shop", "secrets", SYSTEM].contains(&asked.namespace.as_str()))
        .filter(|asked| !asked.request.contains("/namespaces/kube-system"))
        .collect();
    assert!(strange.is_empty(), "{strange:#?}");
    stage.nothing_was_forbidden();
}

/// The checks above can fail: without one rule, both the audit log and the log say so.
#[tokio::test]
async fn a_right_that_is_missing_is_noticed() {
    let mut stage = Stage::without_controller().await;
    stage.install("rbac.create=true").await;
    let rule = json!([{"op": "replace", "path": "/rules", "value": [
        {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get", "list", "watch"]},
    ]}]);
    let rule = rule.to_string();
    stage
        .kubectl(&[
            "patch",
            "clusterrole",
            "lockstep",
            "--type=json",
            "--patch",
            &rule,
        ])
        .await;
    stage.installed_controller().await;
    let noticed = until("a refusal in both logs", SOON, async || {
        let refused = stage.asked().iter().any(|asked| asked.code == 403);
        let log: &Path = stage.controllers[0].output();
        let said = std::fs::read_to_string(log).unwrap();
        if refused && said.lines().any(forbidden) {
            Ok(())
        } else {
            Err(children::tail(log))
        }
    });
    noticed.await.unwrap();
}
