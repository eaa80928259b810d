"""tantivy: BM25 over title and text. Needs `pip install tantivy`.

cd examples/engines
karat run tantivy_search:Search -q ../helpdesk/gold.jsonl --corpus ../helpdesk/corpus.jsonl -o tantivy.jsonl
"""

import tantivy


class Search:
    def index(self, corpus):
        schema = tantivy.SchemaBuilder()
        schema.add_text_field("id", stored=True, tokenizer_name="raw")
        schema.add_text_field("title", tokenizer_name="en_stem")
        schema.add_text_field("text", tokenizer_name="en_stem")
        self.documents = tantivy.Index(schema.build())  # or open your own: tantivy.Index.open("data/tantivy")
        writer = self.documents.writer()
        for item, title, text in zip(corpus.ids, corpus.titles, corpus.texts, strict=True):
            writer.add_document(tantivy.Document(id=item, title=title, text=text))
        writer.commit()
        self.documents.reload()

    def search(self, query, k):
        # Lenient: a query is what a person typed, and not in tantivy's syntax.
        parsed, _ = self.documents.parse_query_lenient(query, ["title", "text"])
        searcher = self.documents.searcher()
        return [(searcher.doc(place)["id"][0], score) for score, place in searcher.search(parsed, k).hits]
