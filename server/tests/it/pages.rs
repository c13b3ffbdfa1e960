//! The pages as a browser without script, and as htmx, gets them.

use axum::body::Body;
use axum::http::{Method, StatusCode, header};
use board::i18n::{Lang, Tr};
use run_protocol::RunState;
use scraper::{ElementRef, Html, Selector};

use crate::support::{Answer, TestBoard};

/// A form that passes.
const GOOD_FORM: &str = "stage=sft&backend=single&model_name_or_path=models%2Fdemo&dataset=demo&template=chatml&finetuning_type=full&once=abc";

pub(crate) fn select<'a>(page: &'a Html, css: &str) -> Vec<ElementRef<'a>> {
    let selector = Selector::parse(css).unwrap();
    page.select(&selector).collect()
}

pub(crate) fn one<'a>(page: &'a Html, css: &str) -> ElementRef<'a> {
    let found = select(page, css);
    assert_eq!(found.len(), 1, "`{css}` is there {} times", found.len());
    found[0]
}

pub(crate) fn text(element: ElementRef<'_>) -> String {
    element
        .text()
        .collect::<String>()
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
}

pub(crate) async fn page(
    board: &TestBoard,
    path: &str,
    headers: &[(&str, &str)],
) -> (Answer, Html) {
    let mut request = TestBoard::request(Method::GET, path).header(header::ACCEPT, "text/html");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let answer = board.send(request.body(Body::empty()).unwrap()).await;
    let html = Html::parse_document(&answer.text());
    (answer, html)
}

pub(crate) async fn send_form(
    board: &TestBoard,
    path: &str,
    form: &str,
    headers: &[(&str, &str)],
) -> (Answer, Html) {
    let mut request = TestBoard::request(Method::POST, path)
        .header(header::ACCEPT, "text/html")
        .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let answer = board
        .send(request.body(Body::from(form.to_owned())).unwrap())
        .await;
    let html = Html::parse_document(&answer.text());
    (answer, html)
}

#[tokio::test]
async fn first_visit_offers_the_demo_as_its_one_primary_action() {
    let board = TestBoard::open().await;
    let (answer, html) = page(&board, "/runs", &[]).await;
    assert_eq!(answer.status, StatusCode::OK);
    assert_eq!(select(&html, "main .btn.primary").len(), 1);
    one(&html, "form[action='/runs/demo'] button.primary");
    assert_eq!(select(&html, "h1").len(), 1);
    let (answer, _) = page(&board, "/", &[]).await;
    assert_eq!(
        (answer.status.as_u16(), answer.header("location")),
        (303, "/runs")
    );
}

#[tokio::test]
async fn every_page_has_one_heading_and_no_style_or_script_in_place() {
    let board = TestBoard::open().await;
    let run = board.make_run("one").await;
    let paths = [
        "/runs",
        "/runs/new",
        "/models",
        "/datasets",
        "/nothing/here",
    ]
    .map(str::to_owned);
    let tabs = ["", "?tab=log", "?tab=config", "?tab=files"].map(|tab| format!("/runs/{run}{tab}"));
    for path in paths.into_iter().chain(tabs) {
        let (answer, html) = page(&board, &path, &[]).await;
        assert!(
            answer.status.is_success() || path.starts_with("/nothing"),
            "{path}: {}",
            answer.status
        );
        assert_eq!(select(&html, "h1").len(), 1, "{path}");
        assert_eq!(
            select(&html, "[style], script:not([src]), style").len(),
            0,
            "{path}"
        );
        let with_handler = html.tree.values().filter_map(|node| node.as_element());
        let handlers = with_handler
            .flat_map(|element| element.attrs())
            .filter(|(name, _)| name.starts_with("on") || name.starts_with("hx-on"));
        assert_eq!(handlers.count(), 0, "{path}");
        let ids: Vec<_> = select(&html, "[id]")
            .into_iter()
            .filter_map(|element| element.attr("id"))
            .collect();
        let unique: std::collections::HashSet<_> = ids.iter().collect();
        assert_eq!(ids.len(), unique.len(), "{path} uses an id twice");
    }
}

#[tokio::test]
async fn later_tasks_and_backends_cannot_be_taken_and_say_why() {
    let board = TestBoard::open().await;
    let (_, html) = page(&board, "/runs/new", &[]).await;
    for (name, later) in [("stage", 5), ("backend", 5)] {
        let disabled = select(
            &html,
            &format!("input[name='{name}'][aria-disabled='true']"),
        );
        assert_eq!(disabled.len(), later, "{name}");
        let reason = one(
            &html,
            &format!("#{}", disabled[0].attr("aria-describedby").unwrap()),
        );
        assert!(text(reason).contains("arrive with"), "{}", text(reason));
    }
    let form = GOOD_FORM.replace("stage=sft", "stage=dpo");
    let (answer, html) = send_form(&board, "/runs", &form, &[]).await;
    assert_eq!(answer.status, StatusCode::UNPROCESSABLE_ENTITY);
    assert!(text(one(&html, "#f-stage-error")).contains("arrives with"));
}

#[tokio::test]
async fn refused_form_keeps_its_values_and_explains_each_field() {
    let board = TestBoard::open().await;
    let form = "stage=sft&backend=single&model_name_or_path=models%2Fnowhere&dataset=&template=&finetuning_type=lora\
        &learning_rate=fast&val_size=0%2C1&lora_rank=-1&cutoff_len=12.5&num_train_epochs=0&lora_dropout=2";
    let (answer, html) = send_form(&board, "/runs", form, &[]).await;
    assert_eq!(answer.status, StatusCode::UNPROCESSABLE_ENTITY);
    let wrong = [
        ("learning_rate", "fast"),
        ("val_size", "0,1"),
        ("lora_rank", "-1"),
        ("cutoff_len", "12.5"),
        ("num_train_epochs", "0"),
        ("lora_dropout", "2"),
    ];
    let summary = one(&html, "#error-summary");
    for (name, value) in wrong {
        let input = one(&html, &format!("input[name='{name}']"));
        assert_eq!(input.attr("value"), Some(value), "{name}");
        assert_eq!(input.attr("aria-invalid"), Some("true"), "{name}");
        let described = input.attr("aria-describedby").unwrap();
        assert!(
            described
                .split(' ')
                .any(|id| id == format!("f-{name}-error")),
            "{described}"
        );
        assert!(!text(one(&html, &format!("#f-{name}-error"))).is_empty());
        let link = format!("#f-{name}");
        assert!(
            summary
                .select(&Selector::parse("a").unwrap())
                .any(|a| a.attr("href") == Some(&link)),
            "{name}"
        );
    }
    assert!(
        text(one(&html, "#f-val_size-error")).contains("0.1"),
        "the comma's hint names the dot"
    );
    let group = one(&html, "#group-lora");
    assert!(
        group.attr("open").is_some(),
        "a group with a problem opens by itself"
    );
    assert!(board.state.store.count_runs().await.unwrap().total() == 0);
}

#[tokio::test]
async fn good_form_is_sent_on_to_its_run_and_makes_one_however_often_it_is_sent() {
    let board = TestBoard::open().await;
    let (answer, _) = send_form(&board, "/runs", GOOD_FORM, &[]).await;
    assert_eq!(answer.status, StatusCode::SEE_OTHER, "{}", answer.text());
    let first = answer.header("location").to_owned();
    assert!(first.starts_with("/runs/0"), "{first}");
    let (answer, _) = send_form(&board, "/runs", GOOD_FORM, &[("hx-request", "true")]).await;
    assert_eq!(
        (answer.status, answer.header("hx-redirect")),
        (StatusCode::OK, first.as_str())
    );
    assert_eq!(board.state.store.count_runs().await.unwrap().total(), 1);
}

#[tokio::test]
async fn htmx_gets_the_form_alone_and_answers_say_what_they_depend_on() {
    let board = TestBoard::open().await;
    let form = GOOD_FORM.replace("template=chatml", "template=");
    let (answer, html) = send_form(&board, "/runs", &form, &[("hx-request", "true")]).await;
    assert_eq!(answer.status, StatusCode::UNPROCESSABLE_ENTITY);
    assert!(answer.header("vary").contains("HX-Request"));
    one(&html, "#run-form");
    assert_eq!(select(&html, ".side").len(), 0);
    let (answer, _) = page(&board, "/runs/new", &[]).await;
    assert!(answer.header("vary").contains("HX-Request"));
}

#[tokio::test]
async fn check_says_the_same_words_as_the_field_and_links_to_it() {
    let board = TestBoard::open().await;
    let form = format!("{GOOD_FORM}&learning_rate=-1");
    let (answer, html) = send_form(&board, "/runs/check", &form, &[("hx-request", "true")]).await;
    assert_eq!(answer.status, StatusCode::OK);
    let row = one(&html, ".check-row.bad[data-field='learning_rate']");
    let start = one(&html, "#start");
    assert_eq!(start.attr("aria-disabled"), Some("true"));
    assert!(text(one(&html, "#start-why")).contains("learning_rate"));
    let (_, html) = send_form(&board, "/runs", &form, &[]).await;
    let beside = text(one(&html, "#f-learning_rate-error"));
    assert!(
        beside.contains(&row.attr("data-reason").unwrap().replace('`', "")),
        "{beside}"
    );
    let (_, html) = send_form(&board, "/runs/check", GOOD_FORM, &[]).await;
    assert!(
        one(&html, "#start").attr("aria-disabled").is_none(),
        "{}",
        html.html()
    );
}

#[tokio::test]
async fn yaml_and_form_show_one_configuration() {
    let board = TestBoard::open().await;
    let (_, html) = send_form(
        &board,
        "/runs/new",
        &format!("{GOOD_FORM}&source=form&tab=yaml&learning_rate=3e-4"),
        &[],
    )
    .await;
    let yaml = text(one(&html, "textarea[name='yaml']"));
    assert!(
        yaml.contains("learning_rate: 0.0003") || yaml.contains("learning_rate: 3e-4"),
        "{yaml}"
    );
    let edited = "source=yaml&tab=form&yaml=stage%3A+sft%0Amodel_name_or_path%3A+models%2Fdemo%0Adataset%3A+demo%0Atemplate%3A+chatml%0Alora_rank%3A+32%0A";
    let (answer, html) = send_form(&board, "/runs/new", edited, &[]).await;
    assert_eq!(answer.status, StatusCode::OK);
    assert_eq!(
        one(&html, "input[name='lora_rank']").attr("value"),
        Some("32")
    );
    let broken = "source=yaml&tab=form&yaml=stage%3A+sft%0Alora_rnak%3A+32%0A";
    let (answer, html) = send_form(&board, "/runs/new", broken, &[]).await;
    assert_eq!(answer.status, StatusCode::UNPROCESSABLE_ENTITY);
    let said = text(one(&html, "#error-summary"));
    assert!(
        said.contains("line 2") && said.contains("lora_rank"),
        "{said}"
    );
    assert!(
        text(one(&html, "textarea[name='yaml']")).contains("lora_rnak"),
        "the text is kept"
    );
    let (_, html) = send_form(
        &board,
        "/runs/new",
        &format!("{GOOD_FORM}&source=form&tab=command"),
        &[],
    )
    .await;
    assert!(text(one(&html, "#command-board")).contains("--run-dir"));
}

#[tokio::test]
async fn hostile_names_stay_text() {
    let board = TestBoard::open().await;
    let name = "<script>alert(1)</script>\"'&<b>";
    let run = board.make_run(name).await;
    for path in [
        "/runs".to_owned(),
        format!("/runs/{run}"),
        format!("/runs/new?from={run}"),
    ] {
        let (answer, html) = page(&board, &path, &[]).await;
        assert!(!answer.text().contains("<script>alert"), "{path}");
        assert_eq!(select(&html, "main b b, h1 b").len(), 0, "{path}");
    }
    let (_, html) = page(&board, &format!("/runs/{run}"), &[]).await;
    assert_eq!(text(one(&html, "h1")), name);
    let (_, html) = page(&board, "/runs?q=%3Cimg+src%3Dx%3E", &[]).await;
    assert_eq!(
        one(&html, "input[name='q']").attr("value"),
        Some("<img src=x>")
    );
}

#[tokio::test]
async fn languages_and_themes_come_from_cookies_and_leave_no_key_bare() {
    let board = TestBoard::open().await;
    let run = board.make_run("one").await;
    let bare = |html: &Html, lang: Lang| {
        let body = text(one(html, "body"));
        let keys = Tr::new(lang)
            .catalogue()
            .keys()
            .filter(|key| key.contains('.') && body.contains(key.as_str()));
        keys.cloned().collect::<Vec<_>>()
    };
    for lang in Lang::ALL {
        let cookie = format!("lang={}; theme=dark", lang.tag());
        for path in [
            "/runs".to_owned(),
            "/runs/new".to_owned(),
            "/models".to_owned(),
            "/datasets".to_owned(),
            format!("/runs/{run}"),
        ] {
            let (_, html) = page(&board, &path, &[("cookie", &cookie)]).await;
            let root = one(&html, "html");
            assert_eq!(
                (root.attr("lang"), root.attr("data-theme")),
                (Some(lang.tag()), Some("dark"))
            );
            assert_eq!(bare(&html, *lang), Vec::<String>::new(), "{path}");
        }
    }
    let (_, html) = page(
        &board,
        "/runs",
        &[("accept-language", "zh-CN,zh;q=0.9,en;q=0.8")],
    )
    .await;
    assert_eq!(one(&html, "html").attr("lang"), Some("zh-Hans"));
    let (answer, _) = send_form(&board, "/preferences", "lang=ru&back=%2Fmodels", &[]).await;
    assert_eq!(
        (answer.status.as_u16(), answer.header("location")),
        (303, "/models")
    );
    assert!(answer.header("set-cookie").starts_with("lang=ru"));
    let (answer, _) = send_form(
        &board,
        "/preferences",
        "theme=dark&back=https%3A%2F%2Fevil.example",
        &[],
    )
    .await;
    assert_eq!(answer.header("location"), "/runs");
}

#[tokio::test]
async fn list_is_filtered_by_state_and_text_and_htmx_gets_its_rows() {
    let board = TestBoard::open().await;
    board.make_run("alpha").await;
    board.make_run("beta").await;
    let (_, html) = page(&board, "/runs?q=alp", &[]).await;
    assert_eq!(select(&html, ".runs-table tbody tr").len(), 1);
    let (_, html) = page(&board, "/runs?state=failed", &[]).await;
    assert_eq!(select(&html, ".runs-table tbody tr").len(), 0);
    assert!(
        select(&html, "#runs-list a[href='/runs']").len() == 1,
        "an empty list offers the way back"
    );
    let (_, html) = page(&board, "/runs", &[("hx-request", "true")]).await;
    assert_eq!(select(&html, ".runs-table tbody tr").len(), 2);
    assert_eq!(select(&html, ".side").len(), 0);
}

#[tokio::test]
async fn badge_title_and_icon_of_a_run_agree_and_its_actions_fit() {
    let board = TestBoard::open().await;
    let id = board.start_run().await;
    board.wait_for_step(&id, 1).await;
    let (_, html) = page(&board, &format!("/runs/{id}"), &[]).await;
    assert_eq!(text(one(&html, "#run-badge")), "running");
    assert!(
        one(&html, "#tab-icon")
            .attr("href")
            .unwrap()
            .contains("running.svg")
    );
    assert_eq!(
        select(&html, "#run-head form[action$='/stop'] button").len(),
        1
    );
    let (_, html) = page(&board, &format!("/runs/{id}/kill"), &[]).await;
    one(
        &html,
        &format!("form[action='/runs/{id}/kill'] button.danger"),
    );
    board.let_go();
    board.wait_for_state(&id, RunState::Finished).await;
    let (_, html) = page(&board, &format!("/runs/{id}"), &[]).await;
    assert_eq!(text(one(&html, "#run-badge")), "finished");
    assert!(text(one(&html, "title")).starts_with('✓'));
    assert_eq!(select(&html, "#run-head form[action$='/stop']").len(), 0);
    one(&html, "[data-metric='loss'] [data-points]");
    let (answer, _) = send_form(&board, &format!("/runs/{id}/stop"), "", &[]).await;
    assert_eq!(answer.status, StatusCode::CONFLICT);
}

#[tokio::test]
async fn failed_run_shows_sentence_and_evidence() {
    let board = TestBoard::open().await;
    board.let_fail();
    let id = board.start_run().await;
    board.wait_for_state(&id, RunState::Failed).await;
    let (_, html) = page(&board, &format!("/runs/{id}"), &[]).await;
    let card = one(&html, "#failure[role='alert']");
    assert!(!text(card.select(&Selector::parse("h2").unwrap()).next().unwrap()).is_empty());
    assert!(text(card).contains("exit code"));
    let (_, html) = page(
        &board,
        &format!("/runs/{id}?block=live"),
        &[("hx-request", "true")],
    )
    .await;
    one(&html, "#run-live #failure");
    assert_eq!(select(&html, "#run-head").len(), 0);
}

#[tokio::test]
async fn files_are_given_from_the_run_directory_alone() {
    let board = TestBoard::open().await;
    let id = board.start_run().await;
    let (answer, _) = page(&board, &format!("/runs/{id}/files/training_args.yaml"), &[]).await;
    assert_eq!(answer.status, StatusCode::OK);
    assert!(
        answer
            .header("content-disposition")
            .starts_with("attachment")
    );
    for path in [
        "..%2F..%2Fboard.sqlite",
        "%2Fetc%2Fpasswd",
        "logs",
        "nothing.json",
        ".",
    ] {
        let (answer, _) = page(&board, &format!("/runs/{id}/files/{path}"), &[]).await;
        assert_eq!(answer.status, StatusCode::NOT_FOUND, "{path}");
    }
}

#[tokio::test]
async fn failed_requests_get_a_page_with_a_way_on() {
    let board = TestBoard::open().await;
    for path in [
        "/nothing",
        "/runs/not-an-id",
        "/runs/0192f0c8-0000-7000-8000-000000000000",
    ] {
        let (answer, html) = page(&board, path, &[("cookie", "lang=zh-Hans")]).await;
        assert_eq!(answer.status, StatusCode::NOT_FOUND, "{path}");
        one(&html, "main a.btn.primary[href='/runs']");
        assert_eq!(one(&html, "html").attr("lang"), Some("zh-Hans"));
    }
}

#[tokio::test]
async fn what_is_still_to_choose_is_no_fault_until_the_form_is_sent() {
    let board = TestBoard::open().await;
    let (_, html) = page(&board, "/runs/new", &[]).await;
    assert_eq!(select(&html, ".check-row.bad, [aria-invalid]").len(), 0);
    assert_eq!(select(&html, "main .btn.primary").len(), 1);
    one(&html, "#first-demo button[formaction='/runs/demo']");
    let form = GOOD_FORM.replace("dataset=demo", "dataset=");
    let (_, html) = send_form(&board, "/runs/check", &form, &[("hx-request", "true")]).await;
    let row = one(&html, ".check-row.todo[data-field='dataset'] a");
    assert_eq!(
        (text(row).as_str(), row.attr("href")),
        ("Choose a dataset", Some("#f-dataset"))
    );
    assert_eq!(select(&html, ".check-row.bad").len(), 0);
    let start = one(&html, "#start");
    assert_eq!(start.attr("aria-disabled"), Some("true"));
    assert_eq!(text(one(&html, "#start-why")), "Choose a dataset");
    let (answer, html) = send_form(&board, "/runs", &form, &[]).await;
    assert_eq!(answer.status, StatusCode::UNPROCESSABLE_ENTITY);
    one(&html, "#f-dataset-error");
    one(&html, ".check-row.bad[data-field='dataset']");
    board.make_run("one").await;
    let (_, html) = page(&board, "/runs/new", &[]).await;
    assert_eq!(select(&html, "#first-demo").len(), 0);
}
