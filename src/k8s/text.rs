//! Texts within the bounds of the API server.

/// At most `longest` bytes of a text (4 or more), cut between characters and marked as cut.
pub fn cut(mut text: String, longest: usize) -> String {
    const MARK: &str = " …";
    if text.len() > longest {
        let most = longest.saturating_sub(MARK.len());
        let end = (0..=most).rev().find(|at| text.is_char_boundary(*at));
        text.truncate(end.unwrap_or_default());
        text.push_str(MARK);
    }
    text
}
