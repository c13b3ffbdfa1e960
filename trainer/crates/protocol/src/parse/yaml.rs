//! YAML to the tree: one document, a map at the top, with limits on size, depth and nodes; no anchors, aliases or tags.

use serde_saphyr::granit_parser::{Event, Parser, ScalarStyle, Span, StrInput};

use super::{
    Place,
    tree::{Data, Entry, Node},
};
use crate::{
    error::{Code, ConfigError, ConfigErrors},
    limits::{MAX_CONFIG_BYTES, MAX_CONFIG_DEPTH, MAX_CONFIG_KEYS, MAX_CONFIG_NODES},
};

/// Reads a document whose top is a map. Faults that leave a tree go to `errors`.
pub(super) fn read(text: &str, errors: &mut Vec<ConfigError>) -> Result<Vec<Entry>, ConfigErrors> {
    match read_node(text, errors)? {
        None => Ok(Vec::new()),
        Some(Node {
            data: Data::Map(entries),
            ..
        }) => Ok(entries),
        Some(node) if node.is_null() => Ok(Vec::new()),
        Some(node) => {
            let error = ConfigError::new(
                Code::Syntax,
                "",
                "the configuration is not a map of keys to values",
            );
            Err(error
                .at(node.place)
                .with_hint("write one `key: value` on a line")
                .into())
        }
    }
}

/// Reads a document of any kind; `None` if it is empty.
pub(super) fn read_node(
    text: &str,
    errors: &mut Vec<ConfigError>,
) -> Result<Option<Node>, ConfigErrors> {
    if text.len() > MAX_CONFIG_BYTES {
        let reason = format!(
            "the configuration has {} bytes, more than the {MAX_CONFIG_BYTES} allowed",
            text.len()
        );
        return Err(ConfigError::new(Code::TooLarge, "", reason).into());
    }
    let mut reader = Reader {
        parser: Parser::new_from_str(text),
        nodes: 0,
        errors,
    };
    reader.document()
}

struct Reader<'input, 'errors> {
    parser: Parser<'input, StrInput<'input>>,
    nodes: usize,
    errors: &'errors mut Vec<ConfigError>,
}

fn place(span: &Span) -> Place {
    (span.start.line(), span.start.col() + 1)
}

fn syntax(reason: impl Into<String>, at: Place) -> ConfigError {
    ConfigError::new(Code::Syntax, "", reason).at(Some(at))
}

impl<'input> Reader<'input, '_> {
    fn next(&mut self) -> Result<(Event<'input>, Place), ConfigErrors> {
        loop {
            return match self.parser.next_event() {
                None => Ok((Event::StreamEnd, (0, 0))),
                Some(Err(error)) => {
                    let at = (error.marker().line(), error.marker().col() + 1);
                    Err(syntax(format!("this is not YAML: {}", error.info()), at)
                        .with_hint("check the indentation, the colons and the quotes on this line and the one before")
                        .into())
                }
                Some(Ok((event, span))) => match event {
                    Event::Comment(..) => continue,
                    event => Ok((event, place(&span))),
                },
            };
        }
    }

    fn document(&mut self) -> Result<Option<Node>, ConfigErrors> {
        let mut node = None;
        loop {
            let (event, at) = self.next()?;
            match event {
                Event::StreamEnd => return Ok(node),
                Event::StreamStart | Event::DocumentEnd => {}
                Event::DocumentStart(..) if node.is_none() => {}
                Event::DocumentStart(..) => {
                    return Err(syntax("the text holds more than one document", at)
                        .with_hint("put each configuration into a file of its own")
                        .into());
                }
                event => node = Some(self.node(event, at, 0)?),
            }
        }
    }

    fn node(
        &mut self,
        event: Event<'input>,
        at: Place,
        depth: usize,
    ) -> Result<Node, ConfigErrors> {
        self.nodes += 1;
        if self.nodes > MAX_CONFIG_NODES || depth > MAX_CONFIG_DEPTH {
            let reason = format!(
                "the configuration has more than {MAX_CONFIG_NODES} values or nests deeper than {MAX_CONFIG_DEPTH}"
            );
            return Err(ConfigError::new(Code::TooLarge, "", reason)
                .at(Some(at))
                .into());
        }
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                self.refuse_extras(anchor, tag.is_some(), at);
                let is_quoted = style != ScalarStyle::Plain;
                Ok(Node {
                    place: Some(at),
                    data: Data::Scalar {
                        text: text.into_owned(),
                        is_quoted,
                    },
                })
            }
            Event::SequenceStart(_, anchor, tag) => {
                self.refuse_extras(anchor, tag.is_some(), at);
                let mut items = Vec::new();
                loop {
                    match self.next()? {
                        (Event::SequenceEnd, _) => break,
                        (event, at) => items.push(self.node(event, at, depth + 1)?),
                    }
                }
                Ok(Node {
                    place: Some(at),
                    data: Data::List(items),
                })
            }
            Event::MappingStart(_, anchor, tag) => {
                self.refuse_extras(anchor, tag.is_some(), at);
                let entries = self.map(depth)?;
                Ok(Node {
                    place: Some(at),
                    data: Data::Map(entries),
                })
            }
            Event::Alias(_) | Event::UnresolvedAlias(_) => {
                self.errors.push(
                    syntax("aliases (`*name`) are not read", at)
                        .with_hint("write the value out where it is used"),
                );
                Ok(Node {
                    place: Some(at),
                    ..Node::plain("")
                })
            }
            _ => Err(syntax("the text ends in the middle of a value", at).into()),
        }
    }

    fn map(&mut self, depth: usize) -> Result<Vec<Entry>, ConfigErrors> {
        let mut entries: Vec<Entry> = Vec::new();
        loop {
            if entries.len() > MAX_CONFIG_KEYS {
                let reason =
                    format!("the configuration has a map of more than {MAX_CONFIG_KEYS} keys");
                return Err(ConfigError::new(Code::TooLarge, "", reason).into());
            }
            let (event, at) = match self.next()? {
                (Event::MappingEnd, _) => return Ok(entries),
                next => next,
            };
            let key = self.node(event, at, depth + 1)?;
            let (event, value_at) = self.next()?;
            let value = self.node(event, value_at, depth + 1)?;
            let Some(name) = key.text().map(str::to_owned) else {
                self.errors.push(syntax("a key must be a word", at));
                continue;
            };
            if let Some(first) = entries.iter().find(|entry| entry.key == name) {
                let line = first.place.map_or(0, |(line, _)| line);
                self.errors.push(
                    ConfigError::new(
                        Code::DuplicateKey,
                        name,
                        format!("the key stands on line {line} already"),
                    )
                    .value(value.show())
                    .with_hint("keep one of the two")
                    .at(Some(at)),
                );
                continue;
            }
            entries.push(Entry {
                key: name,
                place: Some(at),
                value,
            });
        }
    }

    /// Reports anchors and tags; the value itself is taken as if they were not there.
    fn refuse_extras(&mut self, anchor: usize, has_tag: bool, at: Place) {
        if anchor != 0 {
            self.errors.push(
                syntax("anchors (`&name`) are not read", at).with_hint("write the value out"),
            );
        }
        if has_tag {
            self.errors
                .push(syntax("tags (`!name`) are not read", at).with_hint("leave the tag out"));
        }
    }
}
