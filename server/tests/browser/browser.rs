//! A headless Chromium with a profile of its own, driven through chromedriver.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use thirtyfour::prelude::*;

use crate::wait::until;

/// How long a page may take to show something.
pub(crate) const SOON: Duration = Duration::from_secs(20);

/// A browser under test, closed when dropped.
pub(crate) struct Browser {
    driver: WebDriver,
    process: Child,
    _profile: tempfile::TempDir,
}

impl Browser {
    /// Opens a browser window of 1440 by 900.
    pub(crate) async fn open() -> Self {
        let program =
            std::env::var("CHROMEDRIVER").unwrap_or_else(|_| "/usr/bin/chromedriver".into());
        let mut process = Command::new(&program)
            .arg("--port=0")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| {
                panic!("`{program}`: {error}; scripts/setup-system tests installs it")
            });
        let port = read_port(&mut process);
        let profile = tempfile::tempdir().unwrap();
        let mut capabilities = DesiredCapabilities::chrome();
        for argument in [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--window-size=1440,900",
            &format!("--user-data-dir={}", profile.path().display()),
        ] {
            capabilities.add_arg(argument).unwrap();
        }
        let driver = WebDriver::new(format!("http://127.0.0.1:{port}"), capabilities)
            .await
            .unwrap();
        Self {
            driver,
            process,
            _profile: profile,
        }
    }

    /// Goes to a page.
    pub(crate) async fn goto(&self, url: &str) {
        self.driver.goto(url).await.unwrap();
    }

    /// Returns the address of the page.
    pub(crate) async fn url(&self) -> String {
        self.driver.current_url().await.unwrap().to_string()
    }

    /// Returns the first visible element for a CSS selector, once it is there.
    pub(crate) async fn find(&self, css: &str) -> WebElement {
        until(&format!("`{css}` is on the page"), SOON, async || {
            self.visible(css).await
        })
        .await
    }

    /// Returns the first visible element for a CSS selector, if there is one now.
    pub(crate) async fn visible(&self, css: &str) -> Option<WebElement> {
        for element in self.driver.find_all(By::Css(css)).await.ok()? {
            if element.is_displayed().await.unwrap_or(false) {
                return Some(element);
            }
        }
        None
    }

    /// Presses an element, once it is there; one that the page replaces in that moment is looked up again.
    pub(crate) async fn press(&self, css: &str) {
        until(&format!("`{css}` can be pressed"), SOON, async || {
            let element = self.visible(css).await?;
            element.scroll_into_view().await.ok()?;
            element.click().await.ok()
        })
        .await;
    }

    /// Returns the value of a script's expression.
    pub(crate) async fn eval<T: serde::de::DeserializeOwned>(&self, expression: &str) -> T {
        let script = format!("return ({expression});");
        let value = self.driver.execute(script, Vec::new()).await.unwrap();
        value.convert().unwrap()
    }

    /// Gives a control of a form its value, whatever kind of control it is.
    pub(crate) async fn fill(&self, name: &str, value: &str) {
        let css = format!("[name='{name}']:not([type=hidden])");
        let controls = self.driver.find_all(By::Css(css.as_str())).await.unwrap();
        let first = controls
            .first()
            .unwrap_or_else(|| panic!("the form has no `{name}`"));
        // Groups that are closed open as they do for a person who looks for a setting.
        let open = "for (let d = arguments[0].closest('details'); d; d = d.parentElement.closest('details')) d.open = true;";
        self.driver
            .execute(open, vec![first.to_json().unwrap()])
            .await
            .unwrap();
        let kind = first.prop("type").await.unwrap().unwrap_or_default();
        match kind.as_str() {
            "checkbox" if matches!(value, "true" | "false") => {
                if first.is_selected().await.unwrap() != (value == "true") {
                    first.click().await.unwrap();
                }
            }
            "radio" | "checkbox" => self.choose(name, value).await,
            "select-one" => {
                let option = format!("[name='{name}'] option[value='{value}']");
                self.driver
                    .find(By::Css(option))
                    .await
                    .unwrap()
                    .click()
                    .await
                    .unwrap();
            }
            _ => {
                first.clear().await.unwrap();
                first.send_keys(value).await.unwrap();
            }
        }
    }

    /// Presses the label of one choice of several, or the choice itself.
    async fn choose(&self, name: &str, value: &str) {
        let css = format!("[name='{name}'][value='{value}']");
        let choice = self.driver.find(By::Css(css.as_str())).await;
        let choice = choice.unwrap_or_else(|_| panic!("`{name}` does not offer `{value}`"));
        if choice.is_selected().await.unwrap() {
            return;
        }
        let press = "(arguments[0].labels && arguments[0].labels[0] || arguments[0]).click()";
        self.driver
            .execute(press, vec![choice.to_json().unwrap()])
            .await
            .unwrap();
        assert!(
            choice.is_selected().await.unwrap(),
            "`{name}` cannot be set to `{value}`"
        );
    }

    /// Sets the size of the window.
    pub(crate) async fn resize(&self, width: u32, height: u32) {
        self.driver
            .set_window_rect(0, 0, width, height)
            .await
            .unwrap();
    }

    /// Saves a picture of the window as `target/screenshots/NAME.png`.
    pub(crate) async fn screenshot(&self, name: &str) {
        let folder = screenshots();
        std::fs::create_dir_all(&folder).unwrap();
        let png = self.driver.screenshot_as_png().await.unwrap();
        std::fs::write(folder.join(format!("{name}.png")), png).unwrap();
    }

    /// Closes the browser as a person does.
    pub(crate) async fn close(self) {
        self.driver.clone().quit().await.unwrap();
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

fn screenshots() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let target = target.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../target"));
    target.join("screenshots")
}

fn read_port(process: &mut Child) -> u16 {
    let stdout = BufReader::new(process.stdout.take().unwrap());
    for line in stdout.lines() {
        let line = line.unwrap();
        let Some((_, port)) = line.split_once("started successfully on port ") else {
            continue;
        };
        return port.trim_end_matches('.').parse().unwrap();
    }
    panic!("chromedriver did not say its port");
}
