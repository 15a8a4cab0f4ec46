//! Clusters that come from somewhere else: who is chosen, what kind is told, and the quickstart on
//! whatever was chosen.

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use lockstep_e2e::cluster::{
    Cluster, IMAGES_VARIABLE, KUBECONFIG_VARIABLE, PROVIDER_VARIABLE, Provider, images, inside,
};
use lockstep_e2e::until;

const SOON: Duration = Duration::from_secs(120);

/// What is chosen with these variables and no others.
fn chosen(variables: &[(&str, &str)]) -> Result<Provider, String> {
    let variable = |name: &str| {
        let found = variables.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| OsString::from(value))
    };
    Provider::choose(variable).map_err(|error| error.to_string())
}

/// A program that writes its arguments down and answers as this script does.
fn program(folder: &Path, name: &str, script: &str) {
    let log = folder.join("log").display().to_string();
    let text = format!(
        "#!/bin/sh\necho {name} \"$@\" provider=$KIND_EXPERIMENTAL_PROVIDER >> {log}\n{script}\n"
    );
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn the_environment_chooses_the_provider() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config");
    std::fs::write(&file, "").unwrap();
    let file = file.display().to_string();
    let given = |images: &str| Provider::Given {
        kubeconfig: PathBuf::from(&file),
        images: images.to_owned(),
    };
    let kubeconfig = (KUBECONFIG_VARIABLE, file.as_str());
    assert_eq!(chosen(&[]), Ok(Provider::Node));
    assert_eq!(chosen(&[(PROVIDER_VARIABLE, "")]), Ok(Provider::Node));
    assert_eq!(chosen(&[(PROVIDER_VARIABLE, "node")]), Ok(Provider::Node));
    assert_eq!(chosen(&[kubeconfig]), Ok(given("lockstep.test")));
    let both = [kubeconfig, (IMAGES_VARIABLE, "example.com/tests")];
    assert_eq!(chosen(&both), Ok(given("example.com/tests")));
}

#[test]
fn a_choice_that_cannot_be_is_refused_in_words() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().display().to_string();
    let missing = folder.path().join("none").display().to_string();
    let refused = |variables: &[(&str, &str)]| chosen(variables).unwrap_err();
    let words = refused(&[(PROVIDER_VARIABLE, "minikube")]);
    assert!(words.contains("node, kind or kubeconfig"), "{words}");
    let words = refused(&[(PROVIDER_VARIABLE, "kubeconfig")]);
    assert!(words.contains(KUBECONFIG_VARIABLE), "{words}");
    let words = refused(&[(KUBECONFIG_VARIABLE, &missing)]);
    assert!(words.contains(&missing), "{words}");
    let words = refused(&[(PROVIDER_VARIABLE, "node"), (KUBECONFIG_VARIABLE, &missing)]);
    assert!(words.contains("unset one of them"), "{words}");
    let kind = [(PROVIDER_VARIABLE, "kind"), ("PATH", path.as_str())];
    assert_eq!(refused(&kind), "kind is not on PATH");
    program(folder.path(), "kind", "");
    let words = refused(&kind);
    assert!(words.contains("needs a container engine"), "{words}");
}

#[test]
fn an_engine_that_does_not_answer_is_no_engine() {
    let folder = tempfile::tempdir().unwrap();
    program(folder.path(), "kind", "");
    program(folder.path(), "docker", "echo no daemon runs >&2; exit 1");
    let path = folder.path().display().to_string();
    let kind = chosen(&[(PROVIDER_VARIABLE, "kind"), ("PATH", &path)]).unwrap();
    let why = kind.unavailable().expect("docker does not run");
    assert!(why.contains("does not answer: no daemon runs"), "{why}");
}

/// kind is told to make a cluster, to take the images, and to delete it; here by a stand-in.
fn what_kind_is_told(engine: &str, script: &str) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    program(folder.path(), engine, "");
    program(folder.path(), "kind", script);
    let path = folder.path().display().to_string();
    let kind = chosen(&[(PROVIDER_VARIABLE, "kind"), ("PATH", &path)]).unwrap();
    let images = [
        PathBuf::from("/images/a.tar"),
        PathBuf::from("/images/b.tar"),
    ];
    let run = std::panic::catch_unwind(|| {
        kind.with_cluster(&images, async |cluster: Cluster| {
            let text = std::fs::read_to_string(cluster.kubeconfig()).unwrap();
            assert_eq!(text, "made by kind\n");
            assert_eq!(cluster.image("lockstep"), "lockstep.test/lockstep");
            assert_eq!(cluster.pull_policy(), "Never");
        });
    });
    let log = std::fs::read_to_string(folder.path().join("log")).unwrap();
    let mut lines: Vec<String> = log.lines().map(str::to_owned).collect();
    lines.push(if run.is_ok() { "well" } else { "failed" }.to_owned());
    lines
}

#[test]
fn kind_makes_a_cluster_takes_the_images_and_deletes_it() {
    let script =
        "while [ $# -gt 0 ]; do [ \"$1\" = --kubeconfig ] && echo made by kind > $2; shift; done";
    let told = what_kind_is_told("docker", script);
    let [info, create, first, second, delete, end] = told.as_slice() else {
        panic!("{told:#?}");
    };
    let name = format!("--name lockstep-{}", std::process::id());
    assert_eq!(info, "docker info provider=");
    assert!(create.starts_with("kind create cluster "), "{create}");
    assert!(
        create.contains(&name) && create.contains("/e2e/cluster/kind.yaml"),
        "{create}"
    );
    let load = |image: &str| format!("kind load image-archive {image} {name} provider=");
    assert_eq!(
        [first, second],
        [&load("/images/a.tar"), &load("/images/b.tar")]
    );
    assert!(
        delete.starts_with(&format!("kind delete cluster {name}")),
        "{delete}"
    );
    assert_eq!(end, "well");
}

#[test]
fn a_cluster_that_kind_could_not_make_is_deleted_as_well() {
    let told = what_kind_is_told("podman", "[ \"$1\" != create ]");
    assert_eq!(told.len(), 4, "{told:#?}");
    assert!(told[1].ends_with("provider=podman"), "{told:#?}");
    assert!(told[2].starts_with("kind delete cluster"), "{told:#?}");
    assert_eq!(told[3], "failed");
}

#[test]
fn a_cluster_is_given_by_its_kubeconfig() {
    inside(&images(), async |node| {
        let file = node.kubeconfig().display().to_string();
        let given = chosen(&[(KUBECONFIG_VARIABLE, &file)]).unwrap();
        // Within the node's network, which is a thread's.
        let cluster = given.cluster(&[]).unwrap();
        cluster
            .apply("apiVersion: v1\nkind: Namespace\nmetadata: {name: given}\n")
            .await
            .unwrap();
        cluster
            .wait(
                "given",
                "namespace/given",
                "jsonpath={.status.phase}=Active",
            )
            .await
            .unwrap();
        let wrong = "apiVersion: v1\nkind: Namespace\nmetadata: {name: given, nome: given}\n";
        let refused = cluster.apply(wrong).await.unwrap_err().to_string();
        assert!(refused.contains("unknown field"), "{refused}");
        let nodes = cluster.kubectl(&["get", "nodes", "-o", "name"]).await;
        assert_eq!(nodes.unwrap(), "node/e2e\n");
        drop(cluster);
        // It was given, and is still there.
        let nodes = node.kubectl(&["get", "nodes", "-o", "name"]).await;
        assert_eq!(nodes.unwrap().stdout, "node/e2e\n");
    });
}

/// A manifest with an image that the cluster has in the place of this one.
fn with_image(cluster: &Cluster, text: &str, shown: &str, image: &str) -> String {
    let there = format!(
        "image: {}:1\n        imagePullPolicy: {}\n",
        cluster.image(image),
        cluster.pull_policy()
    );
    let changed = text.replace(&format!("image: {shown}\n"), &there);
    assert_ne!(changed, text);
    changed
}

/// A NATS server as the quickstart expects one.
fn nats(cluster: &Cluster) -> String {
    let text = include_str!("../../cluster/nats-server.yaml");
    with_image(cluster, text, "lockstep.test/nats:1", "nats")
}

/// The application that the quickstart shows, in an image that is there.
fn quickstart(cluster: &Cluster) -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/kubernetes/quickstart.yaml");
    let text = std::fs::read_to_string(file).unwrap();
    with_image(cluster, &text, "python:3-slim", "app-python")
}

/// The chart, with the image that the cluster has.
async fn install(cluster: &Cluster) {
    let chart = Path::new(env!("CARGO_MANIFEST_DIR")).join("../charts/lockstep");
    let repository = format!("image.repository={}", cluster.image("lockstep"));
    let policy = format!("image.pullPolicy={}", cluster.pull_policy());
    let chart = chart.display().to_string();
    let mut install = vec!["upgrade", "--install", "lockstep", &chart, "--wait"];
    install.extend(["--namespace", "lockstep-system", "--create-namespace"]);
    install.extend(["--set-string", "image.tag=1", "--set", &repository]);
    install.extend(["--set", &policy, "--timeout", "2m"]);
    cluster.helm(&install).await.unwrap();
}

/// An order is published from within a pod, and an application logs it.
async fn an_order_is_handled(cluster: &Cluster) {
    let mut publish = vec!["exec", "deploy/orders", "-c", "lockstep-worker", "--"];
    publish.extend(["/lockstep", "publish", "orders", "--key", "customer-42"]);
    publish.extend(["--data", "first order"]);
    cluster.kubectl(&publish).await.unwrap();
    let logs = ["logs", "-l", "app=orders", "-c", "app", "--prefix"];
    let handled = until("the order in an application's log", SOON, async || {
        let logs = cluster.kubectl(&logs).await;
        let logs = logs.map_err(|error| error.to_string())?;
        let there = logs.contains("customer-42 first order");
        if there { Ok(()) } else { Err(logs) }
    });
    handled.await.unwrap();
}

/// A given cluster is left as it was found, but for the definitions.
async fn leave(cluster: &Cluster) {
    let ours = ["delete", "deploy/orders", "cg/orders", "nconn/default"];
    cluster.kubectl(&ours).await.unwrap();
    let chart = ["uninstall", "lockstep", "-n", "lockstep-system", "--wait"];
    cluster.helm(&chart).await.unwrap();
    let namespaces = ["delete", "namespace", "lockstep-system", "nats"];
    let namespaces = [&namespaces[..], &["--wait=false"]].concat();
    cluster.kubectl(&namespaces).await.unwrap();
}

#[test]
fn the_quickstart_works_on_the_chosen_cluster() {
    let provider = Provider::chosen().unwrap();
    provider.with_cluster(&images(), async |cluster| {
        cluster.apply(&nats(&cluster)).await.unwrap();
        install(&cluster).await;
        let deployed = "condition=Available";
        cluster.wait("nats", "deploy/nats", deployed).await.unwrap();
        // The ReplicaSet's first pods may come before the group: it tries again by itself.
        cluster.apply(&quickstart(&cluster)).await.unwrap();
        for (object, condition) in [
            ("cg/orders", "condition=Ready"),
            ("deploy/orders", "condition=Available"),
        ] {
            cluster.wait("default", object, condition).await.unwrap();
        }
        an_order_is_handled(&cluster).await;
        let scale = ["scale", "deployment", "orders", "--replicas=3"];
        cluster.kubectl(&scale).await.unwrap();
        let joined = "jsonpath={.status.members.count}=3";
        cluster.wait("default", "cg/orders", joined).await.unwrap();
        leave(&cluster).await;
    });
}
