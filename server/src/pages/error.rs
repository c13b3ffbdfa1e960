//! The page of a failed request.

use askama::Template;
use axum::http::HeaderMap;

use crate::error::Problem;
use crate::view::Chrome;

#[derive(Template)]
#[template(path = "error.html")]
struct ErrorPage<'a> {
    chrome: Chrome,
    problem: &'a Problem,
    title: String,
    detail: String,
}

/// Returns the page that tells a browser about a failed request.
///
/// `request` holds the headers of the request: language, theme and `HX-Request` are read there.
pub fn error_page(problem: &Problem, request: &HeaderMap) -> String {
    let chrome = Chrome::from_headers(request);
    let own = |part: &str| {
        chrome
            .t
            .find(format!("problem.{}.{part}", problem.code))
            .map(str::to_owned)
    };
    let title = own("title").unwrap_or_else(|| problem.title.clone());
    let detail = own("detail").unwrap_or_else(|| problem.detail.clone());
    let page = ErrorPage {
        chrome,
        problem,
        title,
        detail,
    };
    page.render().unwrap_or_else(|_| problem.detail.clone())
}
