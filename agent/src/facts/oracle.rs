//! Oracle software on the node: homes, Grid Infrastructure, and the usual users and groups.

use redoline_proto::facts::OracleSoftware;

use super::root::Root;

const USERS: [&str; 2] = ["oracle", "grid"];
/// The groups of Oracle's installation guides.
const GROUPS: [&str; 10] = [
    "oinstall",
    "dba",
    "oper",
    "backupdba",
    "dgdba",
    "kmdba",
    "racdba",
    "asmadmin",
    "asmdba",
    "asmoper",
];

/// Reads text files only; nothing below a home is looked at.
pub fn read(root: &Root) -> OracleSoftware {
    let mut homes = Vec::new();
    for oratab in ["/etc/oratab", "/var/opt/oracle/oratab"] {
        homes.extend(homes_of_oratab(&root.text(oratab).unwrap_or_default()));
    }
    let inventory = root
        .text("/etc/oraInst.loc")
        .and_then(|text| assigned(&text, "inventory_loc"))
        .and_then(|location| root.text(format!("{location}/ContentsXML/inventory.xml")))
        .unwrap_or_default();
    let installed = homes_of_inventory(&inventory);
    let grid_home = root
        .text("/etc/oracle/olr.loc")
        .and_then(|text| assigned(&text, "crs_home"))
        .or_else(|| installed.iter().find(|home| home.grid).map(|home| home.path.clone()));
    homes.extend(installed.into_iter().map(|home| home.path));
    homes.sort();
    homes.dedup();
    OracleSoftware {
        homes,
        users: known(&root.text("/etc/passwd").unwrap_or_default(), &USERS),
        groups: known(&root.text("/etc/group").unwrap_or_default(), &GROUPS),
        grid_home,
    }
}

/// `SID:HOME:Y`, with comments.
fn homes_of_oratab(oratab: &str) -> Vec<String> {
    oratab
        .lines()
        .map(str::trim)
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split(':').nth(1))
        .filter(|home| home.starts_with('/'))
        .map(|home| home.trim_end_matches('/').to_owned())
        .collect()
}

#[derive(Debug, PartialEq)]
struct Home {
    path: String,
    grid: bool,
}

/// The `HOME` elements of the central inventory, without those that were removed.
fn homes_of_inventory(inventory: &str) -> Vec<Home> {
    inventory
        .split("<HOME ")
        .skip(1)
        .filter_map(|rest| rest.split('>').next())
        .filter(|element| attribute(element, "REMOVED") != Some("T"))
        .filter_map(|element| {
            let path = attribute(element, "LOC")?.trim_end_matches('/').to_owned();
            Some(Home { path, grid: attribute(element, "CRS") == Some("true") })
        })
        .collect()
}

fn attribute<'a>(element: &'a str, name: &str) -> Option<&'a str> {
    element
        .split_ascii_whitespace()
        .find_map(|word| word.strip_prefix(name)?.strip_prefix("=\"")?.split('"').next())
}

/// `key=value`, one per line.
fn assigned(text: &str, key: &str) -> Option<String> {
    let value = text.lines().find_map(|line| line.trim().strip_prefix(key)?.strip_prefix('='))?;
    let value = value.trim().trim_end_matches('/');
    (!value.is_empty()).then(|| value.to_owned())
}

/// Those of `names` that have a line in /etc/passwd or /etc/group.
fn known(table: &str, names: &[&str]) -> Vec<String> {
    let present: Vec<&str> = table.lines().filter_map(|line| line.split(':').next()).collect();
    names.iter().filter(|name| present.contains(*name)).map(|name| (*name).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::super::root::tree;
    use super::*;

    const INVENTORY: &str = r#"<?xml version="1.0" standalone="yes" ?>
<INVENTORY>
<HOME_LIST>
<HOME NAME="OraGI19Home1" LOC="/u01/app/19.0.0/grid" TYPE="O" IDX="1" CRS="true"/>
<HOME NAME="OraDB19Home1" LOC="/u01/app/oracle/product/19.0.0/dbhome_1" TYPE="O" IDX="2"/>
<HOME NAME="OraDB12Home1" LOC="/u01/app/oracle/product/12.1.0/db" TYPE="O" IDX="3" REMOVED="T"/>
</HOME_LIST>
</INVENTORY>"#;

    #[test]
    fn homes_come_from_oratab_and_inventory() {
        let (_dir, root) = tree(&[
            (
                "/etc/oratab",
                "# comment:/nowhere:N\n+ASM1:/u01/app/19.0.0/grid:N\nORA1:/u02/db/:Y\n",
            ),
            ("/etc/oraInst.loc", "inventory_loc=/u01/app/oraInventory\ninst_group=oinstall\n"),
            ("/u01/app/oraInventory/ContentsXML/inventory.xml", INVENTORY),
            ("/etc/passwd", "root:x:0:0::/root:/bin/sh\noracle:x:54321:54321::/h:/bin/sh\n"),
            ("/etc/group", "dba:x:1:\noinstall:x:2:\nasmadmin:x:3:grid\nwheel:x:10:\n"),
        ]);
        let oracle = read(&root);
        assert_eq!(
            oracle.homes,
            ["/u01/app/19.0.0/grid", "/u01/app/oracle/product/19.0.0/dbhome_1", "/u02/db"]
        );
        assert_eq!(oracle.grid_home.as_deref(), Some("/u01/app/19.0.0/grid"));
        assert_eq!(oracle.users, ["oracle"]);
        assert_eq!(oracle.groups, ["oinstall", "dba", "asmadmin"]);
    }

    #[test]
    fn the_cluster_registry_names_the_grid_home() {
        let olr = "olrconfig_loc=/u01/app/grid/cdata/ash1.olr\ncrs_home=/u01/app/21c/grid/\n";
        let (_dir, root) = tree(&[("/etc/oracle/olr.loc", olr)]);
        assert_eq!(read(&root).grid_home.as_deref(), Some("/u01/app/21c/grid"));
    }

    #[test]
    fn a_node_without_oracle_software_has_none() {
        let (_dir, root) = tree(&[("/etc/passwd", "root:x:0:0::/root:/bin/sh\n")]);
        assert_eq!(read(&root), OracleSoftware::default());
    }
}
