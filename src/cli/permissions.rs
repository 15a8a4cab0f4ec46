//! `lockstep permissions`

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde_json::json;

use super::connection::parse_prefix;
use super::{Failure, output};
use crate::crd::{self, DeletionPolicy, Manifest, ValidGroup};
use crate::nats::Role;
use crate::nats::permissions::{self, GroupUse, Permissions};

/// Print the NATS permissions that a role needs for the groups of a manifest
#[derive(Args, Debug)]
#[command(
    after_help = "Prints `permissions` of a user as the server's configuration has them, for workers once per group: \
                  each should have a user of its own. Prefix and domain are those of a NatsConnection in the \
                  file, if there is one.\n\
                  Example: lockstep permissions worker orders.yaml"
)]
pub(super) struct Flags {
    /// Who is to be allowed something: a member, who looks, the controller, or a coordinator
    #[arg(value_enum)]
    role: RoleFlag,
    /// The manifest, as it is applied
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// First part of the buckets' names [default: lockstep]
    #[arg(long, env = "LOCKSTEP_BUCKET_PREFIX", value_name = "PREFIX", value_parser = parse_prefix)]
    bucket_prefix: Option<String>,
    /// The domain behind a leaf node
    #[arg(long, env = "LOCKSTEP_JETSTREAM_DOMAIN", value_name = "NAME")]
    jetstream_domain: Option<String>,
    /// Format: the server's configuration, or JSON
    #[arg(
        long,
        short,
        env = "LOCKSTEP_OUTPUT",
        value_enum,
        default_value = "conf"
    )]
    output: Form,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum RoleFlag {
    Worker,
    Cli,
    Controller,
    Coordinator,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Form {
    Conf,
    Json,
}

/// Where a connection keeps groups.
#[derive(Default)]
struct Place {
    prefix: Option<String>,
    domain: Option<String>,
}

// === impl Flags ===

impl Flags {
    pub(super) fn run(&self) -> Result<(), Failure> {
        let file = self.file.display().to_string();
        let text = std::fs::read_to_string(&self.file)
            .map_err(|e| Failure::usage(format!("{file} cannot be read: {e}")))?;
        let groups = crd::read_groups(&file, &text).map_err(Failure::usage)?;
        let place = place(&file, &text)?;
        let roles = self.roles(&groups).into_iter();
        let lists = roles.map(|role| (names(&role, &groups), self.needs(&role, &groups, &place)));
        output::write(&self.shown(&lists.collect::<Vec<_>>()))
    }

    /// Who needs a list of its own.
    fn roles(&self, groups: &[ValidGroup]) -> Vec<Role> {
        match self.role {
            RoleFlag::Worker => {
                let members = groups.iter().map(|it| Role::Member(it.group.clone()));
                members.collect()
            }
            RoleFlag::Cli => vec![Role::Cli],
            RoleFlag::Controller => vec![Role::Controller],
            RoleFlag::Coordinator => vec![Role::Coordinator],
        }
    }

    fn needs(&self, role: &Role, groups: &[ValidGroup], place: &Place) -> Permissions {
        let groups: Vec<GroupUse<'_>> = groups
            .iter()
            .map(|it| GroupUse {
                group: &it.group,
                source: &it.source,
                makes_streams: !it.create.is_empty(),
                is_deleted: it.deletion_policy == DeletionPolicy::Delete,
            })
            .collect();
        let prefix = self.bucket_prefix.as_deref().or(place.prefix.as_deref());
        let domain = self.jetstream_domain.as_deref().or(place.domain.as_deref());
        permissions::of(role, prefix.unwrap_or("lockstep"), domain, &groups)
    }

    fn shown(&self, lists: &[(String, Permissions)]) -> String {
        let role = self.role.to_possible_value();
        let role = role.as_ref().map_or("", |role| role.get_name());
        let lists = lists.iter();
        match self.output {
            Form::Conf => {
                let lists = lists.map(|(of, needs)| format!("# {role} of {of}\n{needs}"));
                lists.collect::<Vec<_>>().concat()
            }
            Form::Json => {
                let lists = lists.map(|(of, needs)| {
                    json!({
                        "role": role,
                        "groups": of,
                        "publish": needs.publish,
                        "subscribe": needs.subscribe,
                    })
                });
                format!("{:#}\n", json!(lists.collect::<Vec<_>>()))
            }
        }
    }
}

/// The groups that a list is for.
fn names(role: &Role, groups: &[ValidGroup]) -> String {
    if let Role::Member(group) = role {
        return group.to_string();
    }
    let names: Vec<String> = groups.iter().map(|it| it.group.to_string()).collect();
    names.join(", ")
}

fn place(file: &str, text: &str) -> Result<Place, Failure> {
    let manifests = crd::read(file, text).map_err(Failure::usage)?;
    let mut connections = manifests.into_iter().filter_map(|(_, it)| match it {
        Manifest::NatsConnection(connection) => Some(connection.spec),
        Manifest::ConsumerGroup(_) | Manifest::OffsetReset(_) => None,
    });
    let place = connections.next().map(|spec| Place {
        prefix: Some(spec.bucket.prefix),
        domain: spec.jetstream_domain,
    });
    Ok(place.unwrap_or_default())
}
