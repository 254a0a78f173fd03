#include <fmt/format.h>

#include "base/spelling.h"
#include "manual/completion_words.h"

namespace gpux::manual {
namespace {

using Kind = CompletionValue::Kind;

std::string replaced(std::string text, std::string_view what, std::string_view with) {
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + with.size())) {
    text.replace(at, what.size(), with);
  }
  return text;
}

// For bash and zsh.
std::string quoted(const std::string& text) {
  return "'" + replaced(text, "'", "'\\''") + "'";
}

std::vector<std::string> names_of(const std::vector<CompletionFlag>& flags) {
  std::vector<std::string> names;
  for (const CompletionFlag& flag : flags) names.insert(names.end(), flag.names.begin(), flag.names.end());
  return names;
}

std::vector<std::string> command_names(const CompletionWords& words) {
  std::vector<std::string> names;
  for (const CompletionCommand& command : words.commands) names.push_back(command.name);
  return names;
}

constexpr std::string_view bash_head = R"sh(# bash completion of gpux; made by `gpux completion bash`

_gpux() {
  local line=${COMP_LINE:0:COMP_POINT} words=() command= choices= files= names= kept= cut= current previous reply i
  # bash takes names apart at colons and flags at equals signs; this does not.
  current=${line##*[[:space:]]}
  read -r -a words <<<"${line%"$current"}"
  previous=${words[${#words[@]}-1]}
  local typed=$current
  if [[ $current == --*=* ]]; then
    previous=${current%%=*}
    kept=$previous=
    current=${current#*=}
  elif [[ $current == @* ]]; then
    kept=@
    current=${current#@}
    files=yes
  fi
)sh";

constexpr std::string_view bash_tail = R"sh(  COMPREPLY=()
  [[ $names ]] && choices+=" $("${words[0]}" completion --names 2>/dev/null)"
  if [[ $choices ]]; then
    while IFS= read -r reply; do COMPREPLY+=("$kept$reply"); done < <(compgen -W "$choices" -- "$current")
  fi
  if [[ $files ]]; then
    compopt -o filenames 2>/dev/null
    while IFS= read -r reply; do COMPREPLY+=("$kept$reply"); done < <(compgen -f -- "$current")
  fi
  # What bash holds for the word begins behind the last place where it took it apart.
  local breaks=
  [[ $COMP_WORDBREAKS == *:* ]] && breaks+=:
  [[ $COMP_WORDBREAKS == *=* ]] && breaks+==
  [[ $COMP_WORDBREAKS == *@* ]] && breaks+=@
  if [[ $breaks && $typed == *[$breaks]* ]]; then
    cut=${typed%"${typed##*[$breaks]}"}
    for ((i = 0; i < ${#COMPREPLY[@]}; i++)); do COMPREPLY[i]=${COMPREPLY[i]#"$cut"}; done
  fi
}

complete -F _gpux gpux
)sh";

// A case of the bash script: what may follow a flag of a command, or "" for no command.
void append_value_case(std::string& out, const std::string& command, const CompletionFlag& flag) {
  if (flag.value.kind == Kind::none) return;
  std::vector<std::string> patterns;
  for (const std::string& name : flag.names) patterns.push_back(command + ":" + name);
  out += fmt::format("    {})", join(patterns, "|"));
  if (flag.value.kind == Kind::choice) out += fmt::format(" choices={}", quoted(join(flag.value.choices, " ")));
  if (flag.value.kind == Kind::file) out += " files=yes";
  if (flag.value.kind == Kind::text) out += " COMPREPLY=(); return";
  out += " ;;\n";
}

std::string bash_script(const CompletionWords& words) {
  std::string out(bash_head);
  out += "  for ((i = 1; i < ${#words[@]}; i++)); do\n    case ${words[i]} in\n";
  for (const CompletionFlag& flag : words.flags) {
    if (flag.value.kind != Kind::none) out += fmt::format("      {}) ((i++)) ;;\n", join(flag.names, "|"));
  }
  out += fmt::format("      {}) command=${{words[i]}}; break ;;\n    esac\n  done\n", join(command_names(words), "|"));
  out += "  case $command:$previous in\n";
  for (const CompletionFlag& flag : words.flags) append_value_case(out, "", flag);
  for (const CompletionCommand& command : words.commands) {
    for (const CompletionFlag& flag : command.flags) append_value_case(out, command.name, flag);
  }
  out += "    *)\n      case $command:$current in\n";
  out += fmt::format("        :-*) choices={} ;;\n", quoted(join(names_of(words.flags), " ")));
  out += fmt::format("        :*) choices={} ;;\n", quoted(join(command_names(words), " ")));
  for (const CompletionCommand& command : words.commands) {
    out += fmt::format("        {}:-*) choices={} ;;\n", command.name, quoted(join(names_of(command.flags), " ")));
    if (!command.choices.empty()) {
      out += fmt::format("        {}:*) choices={} ;;\n", command.name, quoted(join(command.choices, " ")));
    } else if (command.takes_models) {
      out += fmt::format("        {}:*) files=yes names=yes ;;\n", command.name);
    }
  }
  out += "      esac ;;\n  esac\n";
  return out + std::string(bash_tail);
}

// In a specification of _arguments, "[…]" holds the description and ":" parts what follows.
std::string zsh_description(const std::string& text) {
  std::string escaped = text;
  for (const char* special : {"\\", "[", "]", ":"}) escaped = replaced(escaped, special, std::string("\\") + special);
  return escaped;
}

std::string zsh_value(const CompletionValue& value) {
  switch (value.kind) {
    case Kind::text:
      return ":value: ";
    case Kind::choice:
      return fmt::format(":value:({})", join(value.choices, " "));
    case Kind::file:
      return ":file:_files";
    case Kind::none:
      break;
  }
  return {};
}

void append_zsh_flags(std::string& out, const std::vector<CompletionFlag>& flags, std::string_view indent) {
  for (const CompletionFlag& flag : flags) {
    for (const std::string& name : flag.names) {
      const bool is_long = name.starts_with("--");
      const char* how = flag.value.kind == Kind::none ? "" : is_long ? "=" : "+";
      out += fmt::format(
          "{}{} \\\n", indent,
          quoted(fmt::format("*{}{}[{}]{}", name, how, zsh_description(flag.description), zsh_value(flag.value))));
    }
  }
}

std::string zsh_script(const CompletionWords& words) {
  std::string out =
      "#compdef gpux\n# zsh completion of gpux; made by `gpux completion zsh`\n\n"
      "_gpux_models() {\n"
      "  local -a names\n"
      "  names=(${(f)\"$(_call_program names gpux completion --names 2>/dev/null)\"})\n"
      "  _alternative 'names:model:compadd -a names' 'files:file:_files'\n"
      "}\n\n"
      "_gpux() {\n"
      "  local curcontext=$curcontext state line\n"
      "  typeset -A opt_args\n"
      "  _arguments -C \\\n";
  append_zsh_flags(out, words.flags, "    ");
  out +=
      "    '1:command:->command' \\\n    '*::argument:->argument'\n"
      "  case $state in\n    command)\n      local -a commands\n      commands=(\n";
  for (const CompletionCommand& command : words.commands) {
    out += fmt::format("        {}\n",
                       quoted(fmt::format("{}:{}", command.name, replaced(command.description, ":", "\\:"))));
  }
  out +=
      "      )\n      _describe command commands ;;\n"
      "    argument)\n      curcontext=${curcontext%:*:*}:gpux-$words[1]:\n      case $words[1] in\n";
  for (const CompletionCommand& command : words.commands) {
    out += fmt::format("        {})\n          _arguments \\\n", command.name);
    append_zsh_flags(out, command.flags, "            ");
    if (!command.choices.empty()) {
      out += fmt::format("            {} ;;\n", quoted(fmt::format("1:value:({})", join(command.choices, " "))));
    } else if (command.takes_models) {
      out += "            '*:model:_gpux_models' ;;\n";
    } else {
      out += "            ;;\n";
    }
  }
  out +=
      "      esac ;;\n  esac\n}\n\n"
      "if [[ $funcstack[1] == _gpux ]]; then\n  _gpux \"$@\"\nelse\n  compdef _gpux gpux\nfi\n";
  return out;
}

std::string fish_quoted(const std::string& text) {
  return "'" + replaced(replaced(text, "\\", "\\\\"), "'", "\\'") + "'";
}

void append_fish_flags(std::string& out, const std::vector<CompletionFlag>& flags, const std::string& condition) {
  for (const CompletionFlag& flag : flags) {
    out += fmt::format("complete -c gpux -n {}", fish_quoted(condition));
    for (const std::string& name : flag.names) {
      out += name.starts_with("--") ? fmt::format(" -l {}", name.substr(2)) : fmt::format(" -s {}", name.substr(1));
    }
    if (flag.value.kind == Kind::choice) {
      out += fmt::format(" -x -a {}", fish_quoted(join(flag.value.choices, " ")));
    } else if (flag.value.kind == Kind::file) {
      out += " -r -F";
    } else if (flag.value.kind == Kind::text) {
      out += " -x";
    }
    out += fmt::format(" -d {}\n", fish_quoted(flag.description));
  }
}

std::string fish_script(const CompletionWords& words) {
  std::string out = "# fish completion of gpux; made by `gpux completion fish`\n\ncomplete -c gpux -f\n";
  append_fish_flags(out, words.flags, "__fish_use_subcommand");
  for (const CompletionCommand& command : words.commands) {
    out += fmt::format("complete -c gpux -n __fish_use_subcommand -a {} -d {}\n", command.name,
                       fish_quoted(command.description));
  }
  for (const CompletionCommand& command : words.commands) {
    const std::string condition = "__fish_seen_subcommand_from " + command.name;
    append_fish_flags(out, command.flags, condition);
    if (!command.choices.empty()) {
      out += fmt::format("complete -c gpux -n {} -a {}\n", fish_quoted(condition),
                         fish_quoted(join(command.choices, " ")));
    } else if (command.takes_models) {
      out +=
          fmt::format("complete -c gpux -n {} -F -a '(gpux completion --names 2>/dev/null)'\n", fish_quoted(condition));
    }
  }
  return out;
}

}  // namespace

std::string completion_script(const CompletionWords& words, const std::string& shell) {
  if (shell == "zsh") return zsh_script(words);
  if (shell == "fish") return fish_script(words);
  return bash_script(words);
}

}  // namespace gpux::manual
