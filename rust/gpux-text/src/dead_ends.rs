//! Grammars with rules or words that no text fits. A text that has begun such a part cannot be finished.

use llguidance::derivre::HashSet;
use llguidance::earley::{CGrammar, CSymIdx};
use llguidance::TokenParser;

/// Symbols of a grammar, by their index.
struct Symbols<'a> {
    grammar: &'a CGrammar,
    indices: Vec<CSymIdx>,
}

impl Symbols<'_> {
    /// Those that the start leads to.
    fn of(grammar: &CGrammar) -> Symbols<'_> {
        let mut indices = vec![grammar.start()];
        let mut seen: HashSet<usize> = indices.iter().map(|one| one.as_index()).collect();
        let mut next = 0;
        while next < indices.len() {
            for rule in grammar.rules_of(indices[next]) {
                let parts = grammar.rule_rhs(*rule).0;
                indices.extend(parts.iter().copied().filter(|part| seen.insert(part.as_index())));
            }
            next += 1;
        }
        Symbols { grammar, indices }
    }

    /// Those that a text fits. `fitting`: the words that do.
    fn fitting(&self, fitting: HashSet<usize>) -> HashSet<usize> {
        // For each symbol the rules that wait for it, and for each rule how many parts are missing.
        let size = self.indices.iter().map(|one| one.as_index() + 1).max().unwrap_or(0);
        let (mut waiting, mut missing) = (vec![Vec::new(); size], Vec::new());
        let mut known = fitting;
        for symbol in &self.indices {
            if self.grammar.sym_data(*symbol).is_nullable {
                known.insert(symbol.as_index());
            }
            for rule in self.grammar.rules_of(*symbol) {
                let parts = self.grammar.rule_rhs(*rule).0;
                parts.iter().for_each(|part| waiting[part.as_index()].push(missing.len()));
                missing.push((symbol.as_index(), parts.len()));
            }
        }
        let mut todo: Vec<usize> = known.iter().copied().collect();
        while let Some(symbol) = todo.pop() {
            for rule in std::mem::take(&mut waiting[symbol]) {
                let (made, left) = &mut missing[rule];
                *left -= 1;
                if *left == 0 && known.insert(*made) {
                    todo.push(*made);
                }
            }
        }
        known
    }

    /// Whether a rule has a part that no text fits behind one that a text may have begun with.
    fn has_dead_end(&self, fitting: &HashSet<usize>) -> bool {
        let may_have_text = |part: &CSymIdx| {
            let data = self.grammar.sym_data(*part);
            data.is_terminal || !data.rules.is_empty()
        };
        self.indices.iter().flat_map(|symbol| self.grammar.rules_of(*symbol)).any(|rule| {
            let parts = self.grammar.rule_rhs(*rule).0;
            let first_dead = parts.iter().position(|part| !fitting.contains(&part.as_index()));
            first_dead.is_some_and(|at| parts[..at].iter().any(may_have_text))
        })
    }
}

/// Whether a text can begin as the grammar says, and then not be finished.
pub fn has_dead_end(parser: &TokenParser) -> bool {
    // A copy: the states that are made here count for the limits of a constraint.
    let mut parser = parser.deep_clone().parser;
    let grammar = parser.grammar().clone();
    let symbols = Symbols::of(&grammar);
    let fitting = parser.with_recognizer(|recognizer| {
        let words = symbols.indices.iter().filter_map(|symbol| grammar.sym_data(*symbol).lexeme.map(|word| (symbol, word)));
        words
            .filter(|(_, word)| {
                let mut alone = grammar.lexer_spec().alloc_lexeme_set();
                alone.add(*word);
                !recognizer.lexer_mut().start_state(&alone).is_dead()
            })
            .map(|(symbol, _)| symbol.as_index())
            .collect()
    });
    let fitting = symbols.fitting(fitting);
    !fitting.contains(&grammar.start().as_index()) || symbols.has_dead_end(&fitting)
}
