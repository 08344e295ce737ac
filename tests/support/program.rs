//! The program as a function: arguments and variables in, text and exit code
//! out. Tests of the service take this file in by its path; the crate beside it
//! knows no service.

use std::collections::BTreeMap;

use sluice::app::{Worker, plugin_tables, plugins};
use sluice::cli::{App, Exit, Surroundings, execute};
use sluice::config::env::Environment;
use sluice::config::plugins::Plugins;
use sluice::config::reference::Table;
use sluice::plugins::Plugin;

pub type Variables = BTreeMap<String, String>;

/// What it printed, and how it ended.
pub struct Said {
    pub exit: Exit,
    pub out: String,
    pub err: String,
}

/// What is behind the command line; by default that of the program itself.
pub struct Program {
    pub app: &'static dyn App,
    pub plugins: Plugins,
    pub plugin_list: Vec<Plugin>,
    pub plugin_tables: Vec<Table>,
}

impl Default for Program {
    fn default() -> Self {
        Self {
            app: &Worker,
            plugins: plugins(),
            plugin_list: sluice::plugins::all(),
            plugin_tables: plugin_tables(),
        }
    }
}

impl Program {
    pub fn run(self, arguments: &[&str], variables: Variables) -> Said {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let surroundings = Surroundings {
            environment: Environment::of(variables),
            plugins: self.plugins,
            plugin_list: self.plugin_list,
            plugin_tables: self.plugin_tables,
            out: &mut out,
            err: &mut err,
        };
        let exit = execute([&["sluice"], arguments].concat(), surroundings, self.app);
        Said {
            exit,
            out: String::from_utf8(out).unwrap(),
            err: String::from_utf8(err).unwrap(),
        }
    }
}
