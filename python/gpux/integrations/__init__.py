"""gpux's embeddings in other libraries: a module for each, imported only when it is asked for.

gpux.integrations.langchain, llama_index, chromadb and sentence_transformers.
"""
