#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "gpux/chat.h"
#include "server/protocols/request_json.h"
#include "server/protocols/response_store.h"

/// The items that a response answers. Source: OpenAI's API reference, "Create a model response", member input.
namespace gpux::server::responses {

/// An item of a request: the item itself, or the id of one that the server keeps.
struct RequestedItem {
  std::shared_ptr<const ConversationItem> item;  ///< null: `reference` names it
  std::string reference;
  std::string place;  ///< in the request, for errors: "input[3]"
};

/// The member "input": a text, which is the message of a user, or a list of items. `has_json`: the items are kept, and
/// need what clients read. Errors invalid_input that name the place; resource_exhausted: no memory for the items.
std::vector<RequestedItem> read_items(Members& members, bool has_json, const std::shared_ptr<MemoryBudget>& memory);

/// The items as messages: reasoning, content and calls that follow each other are one message of the assistant, and
/// messages of the system at the beginning are one, with `instructions` before them. Pure.
std::vector<ChatMessage> conversation_of(const std::string& instructions, const ConversationItems& items);

/// Appends what an item says to the conversation. Pure.
void append_item(std::vector<ChatMessage>& messages, ChatMessage item);

}  // namespace gpux::server::responses
