//! What the tests do on the board's pages, in a person's words.

use std::time::Duration;

use crate::board::Board;
use crate::browser::{Browser, SOON};
use crate::wait::until;

/// Opens the form for a new run, and fills in a model, a dataset and further keys.
pub(crate) async fn fill_new_run(browser: &Browser, board: &Board, values: &[(&str, &str)]) {
    browser.goto(&board.url("/runs/new")).await;
    for (name, value) in values {
        browser.fill(name, value).await;
    }
}

/// Presses Start, and returns the id of the run whose page opens.
pub(crate) async fn start_run(browser: &Browser) -> String {
    browser.press("#start").await;
    opened_run(browser).await
}

/// Opens the menu of the run's page, and stops the run.
pub(crate) async fn stop_run(browser: &Browser) {
    browser.press("#run-head details.menu > summary").await;
    browser
        .press("#run-head form[action$='/stop'] button")
        .await;
}

/// Returns the id of the run whose page is open.
pub(crate) async fn opened_run(browser: &Browser) -> String {
    until("the page of the run opens", SOON, async || {
        let url = browser.url().await;
        let id = url.split("/runs/").nth(1)?.split(['?', '#', '/']).next()?;
        (id.len() == 36).then(|| id.to_owned())
    })
    .await
}

/// Returns how many points the curve of a metric is drawn with.
pub(crate) async fn points_drawn(browser: &Browser, metric: &str) -> u64 {
    let panel =
        format!(".panel[data-names='{metric}'] .plot, .panel[data-names^='{metric},'] .plot");
    let expression = format!("Number(document.querySelector(\"{panel}\")?.dataset.points ?? 0)");
    browser.eval(&expression).await
}

/// Waits until the curve has more points than `before`, and returns how many.
pub(crate) async fn wait_for_more_points(
    browser: &Browser,
    metric: &str,
    before: u64,
    limit: Duration,
) -> u64 {
    until(
        &format!("the curve of `{metric}` moves"),
        limit,
        async || {
            let now = points_drawn(browser, metric).await;
            (now > before).then_some(now)
        },
    )
    .await
}
