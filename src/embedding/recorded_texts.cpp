#include "embedding/recorded_texts.h"

#include <array>

namespace gpux::embedding {
namespace {

constexpr std::array<std::string_view, 64> texts{
    "invoice",
    "reset my password",
    "How do I cancel my subscription?",
    "weather tomorrow",
    "A man is playing a guitar on a stage.",
    "A woman is slicing an onion in the kitchen.",
    "Two dogs run after a ball along the beach.",
    "The child fell asleep before the story was over.",
    "A train leaves the station while people wave.",
    "Someone is pouring milk into a bowl of cereal.",
    "Stocks fell on Friday after the central bank left interest rates unchanged.",
    "The company reported a loss for the third quarter in a row.",
    "Inflation slowed in March, but rents kept rising in most cities.",
    "The two governments agreed to resume talks about the border next month.",
    "Voters will decide on Sunday whether the old bridge is to be replaced.",
    "An earthquake of magnitude 6.1 shook the coast; no damage was reported.",
    "The team won the final 3-2 after extra time.",
    "She broke the national record in the 400 metres twice within a week.",
    "The patient was given 5 mg of the drug twice a day for two weeks.",
    "Regular exercise lowers blood pressure and improves sleep.",
    "Symptoms include fever, a dry cough and a loss of taste or smell.",
    "Wash your hands for at least twenty seconds with soap and water.",
    "The enzyme breaks the protein down into shorter chains.",
    "Light from the galaxy took eleven billion years to reach the telescope.",
    "Water expands when it freezes, which is why ice floats.",
    "The derivative of a constant function is zero everywhere.",
    "Photosynthesis turns carbon dioxide and water into sugar and oxygen.",
    "Segmentation fault when the vector is resized inside the loop",
    "How can I read a file line by line in Python without loading all of it?",
    "git rebase versus merge: which one keeps the history readable?",
    "The server answers 503 while the model is being loaded.",
    "SELECT name, COUNT(*) FROM orders GROUP BY name HAVING COUNT(*) > 3;",
    "for (int i = 0; i < n; ++i) sum += values[i] * weights[i];",
    "{\"error\": \"not_found\", \"message\": \"no such user\", \"code\": 404}",
    "2024-03-17 08:15:42 WARN disk /dev/sda1 is 91% full",
    "Preheat the oven to 180 degrees and butter a baking tin.",
    "Knead the dough for ten minutes, then let it rise in a warm place until it has doubled.",
    "A good broth needs bones, time and very little salt.",
    "The museum is closed on Mondays and on public holidays.",
    "Take the second exit at the roundabout and follow the river for two kilometres.",
    "Our room had a view of the harbour, but the walls were thin and the lift was out of order.",
    "Great shoes, comfortable from the first day, but they run half a size small.",
    "The battery lasts barely four hours, far from the twelve that were promised.",
    "Terrible service: we waited an hour and the soup was cold.",
    "I have been using this keyboard for three years and would buy it again at once.",
    "The tenant shall pay the rent in advance on the first working day of each month.",
    "Either party may end this agreement in writing with a notice of thirty days.",
    "No part of this publication may be reproduced without the permission of the publisher.",
    "In the beginning the valley was a lake, and the hills around it were islands.",
    "He closed the door quietly, as if the house itself were asleep.",
    "\"You came,\" she said, and put the letter back into the drawer.",
    "The old cathedral was built over two centuries, and each generation of masons left its own style in the stone.",
    "The orchestra tuned, the lights went down, and for a moment nobody in the hall so much as coughed.",
    "Machine translation has improved quickly, but idioms, jokes and names of dishes still lead it astray.",
    "Der Zug nach Hamburg fährt heute von Gleis sieben ab.",
    "Wie lange ist die Bibliothek am Samstag geöffnet?",
    "Le marché a lieu chaque jeudi matin sur la place de l'église.",
    "¿Dónde puedo cambiar dinero cerca del aeropuerto?",
    "机器学习模型需要大量的数据。",
    "🙂 thanks!!! see u 2morrow @ 9",
    "The library of the monastery held some four thousand manuscripts. Most were copied by hand in the scriptorium on "
    "the "
    "north side, where the light was even; a monk could finish perhaps two books in a year. When the fire came in 1671 "
    "the brothers carried out what they could, and the rest was lost. The catalogue survived, so that today we know "
    "the "
    "titles of books that nobody has read for three hundred and fifty years.",
    "A heat pump moves heat from a cold place to a warm one, which takes far less energy than making heat. In a mild "
    "winter it delivers three to four kilowatt hours of heat for each one of electricity. The colder it is outside, "
    "the "
    "less it gains, and below some point an electric heater has to help. Whether it pays depends on the price of "
    "electricity, on how well the house keeps its warmth, and on how warm the water in the radiators has to be.",
    "To return an item, open your orders, choose the item and print the label. Pack it in its original box if you "
    "still "
    "have it, and hand it in at any post office within thirty days of delivery. We refund the price, without the cost "
    "of "
    "shipping, to the card you paid with as soon as the parcel has reached us; banks take up to five working days to "
    "show it. Gift cards, opened software and food cannot be returned.",
    "The scheduler keeps a queue for each model. A request waits until a worker is free, then runs with as many others "
    "of the same shape as fit into a batch. If its deadline passes first, it is answered with an error and taken out "
    "of "
    "the queue; a run that has already begun is told to stop, but ends only after the operator that it is in. Nothing "
    "is "
    "retried: the caller knows best whether asking again makes sense."};

}  // namespace

std::span<const std::string_view> recorded_texts() noexcept {
  return texts;
}

std::string joined_recorded_texts() {
  std::string all;
  for (const std::string_view text : recorded_texts()) all.append(text).append("\n");
  return all;
}

}  // namespace gpux::embedding
