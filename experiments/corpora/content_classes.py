"""Held-out texts by class of content: how often a draft stands depends on what is written.

*Code* are slices that begin with a definition; *prose* are docstrings of modules and classes.
"""

import ast
import warnings
from collections.abc import Iterator

from experiments.corpora.standard_library import Document, held_out_documents, held_out_modules

CODE_BEGINS = ("class ", "def ", "    def ", "@")
"""How a slice begins that is code from its first line on."""


def held_out_code() -> Iterator[Document]:
    """Yield held-out slices that begin with a definition, in the corpus's mixed order."""
    for document in held_out_documents():
        if document.text.startswith(CODE_BEGINS):
            yield document


def held_out_prose() -> Iterator[Document]:
    """Yield the docstrings of held-out modules and their classes, each after its opening quotes.

    A docstring is named by where it stands: `email.message`, `email.message.Message`.
    """
    for document in held_out_modules():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)
            tree = ast.parse(document.text)
        docstring = ast.get_docstring(tree, clean=False)
        if docstring:
            yield Document(document.name, f'"""{docstring}')
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and (docstring := ast.get_docstring(node)):
                yield Document(f"{document.name}.{node.name}", f'"""{docstring}')
